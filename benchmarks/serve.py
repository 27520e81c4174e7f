"""Load, malformed requests and a soak of ``sttau serve`` on loopback; writes benchmarks/serve/results.json.

Run ``sttau quickstart`` first, then ``python -m benchmarks.serve quickstart/models/digits --load 60 --soak 300``.
The server runs in a process of its own. Clients are coroutines of this process, so on two cores both compete for them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from sttau.data import load
from sttau.jobs.results import hardware, versions
from tests.faults.mutations import damage

OUT = Path(__file__).parent / "serve/results.json"
PATH_OR_TRACE = re.compile(rb"Traceback|File \"|/(home|root|usr|tmp|opt)/")


class Server:
    """``sttau serve`` in a process."""

    def __init__(self, models: Path) -> None:
        command = [sys.executable, "-m", "sttau", "serve", str(models), "--port", "0"]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        found = None
        while found is None:
            line = self.process.stdout.readline()
            assert line or self.process.poll() is None, "the server did not start"
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        self.port = int(found[1])
        self.seconds_to_start = round(time.perf_counter() - began, 2)

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)

    @property
    def descriptors(self) -> int:
        """Number of open files and sockets."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> str:
        """End it; return what it printed meanwhile."""
        self.process.terminate()
        return self.process.communicate(timeout=60)[0]


class Client:
    """A keep-alive connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: Any = None

    async def send(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, bytes]:
        """Send a request; return status and body of the response."""
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1])  # type: ignore[index]
        content = await self.reader.readexactly(size)
        if b"connection: close" in answer.lower():
            self.close()
        return int(answer.split(b" ", 2)[1]), content

    def close(self) -> None:
        """Abort the connection, as a client that is killed does."""
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None


def bodies(model: str) -> list[bytes]:
    """A request for each test digit, with 10 samples."""
    images = load("digits", "test").inputs.tolist()
    return [json.dumps({"model": model, "inputs": image, "samples": 10}).encode() for image in images]


async def measure(port: int, requests: list[bytes], clients: int, seconds: float) -> dict[str, Any]:
    """Send requests as fast as they are answered."""
    delays: list[float] = []
    statuses: Counter[int] = Counter()
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        client, place = Client(port), number
        while time.perf_counter() < end:
            began = time.perf_counter()
            status, _ = await client.send("/api/predict", requests[place % len(requests)])
            delays.append(time.perf_counter() - began)
            statuses[status] += 1
            place += clients
        client.close()

    await asyncio.gather(*(work(number) for number in range(clients)))
    delays.sort()
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(delays),
        "predictions_per_second": round(len(delays) / seconds, 1),
        "p50_ms": round(1000 * median(delays), 2),
        "p99_ms": round(1000 * delays[int(0.99 * len(delays))], 2),
        "errors": sum(count for status, count in statuses.items() if status != 200),
    }


async def malformed(port: int, model: str, count: int, seed: int) -> dict[str, Any]:
    """Send damaged requests to both interfaces, and damaged messages to streams."""
    from websockets.asyncio.client import connect

    chance = random.Random(seed)
    image = load("digits", "test").inputs[0].tolist()
    flat = [value for row in image for value in row]
    tensor = {"name": "input", "shape": [1, 8, 8], "datatype": "FP32", "data": flat}
    table = b"image,row,pixel0,pixel1,pixel2,pixel3,pixel4,pixel5,pixel6,pixel7\n" + b"".join(
        b"0,%d,%s\n" % (row, ",".join(map(str, values)).encode()) for row, values in enumerate(image)
    )
    targets = [
        ("/api/predict", json.dumps({"model": model, "inputs": image, "samples": 4}).encode(), "application/json"),
        (f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor]}).encode(), "application/json"),
        (f"/api/file?model={model}&name=a.csv", table, "text/csv"),
        (f"/api/evaluate?model={model}&name=a.csv", table, "text/csv"),
    ]
    statuses: Counter[str] = Counter()
    leaks, client = 0, Client(port)
    for number in range(count):
        path, body, kind = targets[number % 2 if number % 20 else 2 + (number // 20) % 2]
        status, answer = await client.send(path, damage(body, chance), kind)
        statuses[f"{status // 100}xx"] += 1
        leaks += bool(PATH_OR_TRACE.search(answer))
    messages = 0
    for _ in range(count // 100):
        async with connect(f"ws://127.0.0.1:{port}/api/stream") as socket:
            await socket.send(json.dumps({"model": model}))
            await socket.recv()
            for row in image:
                content = damage(json.dumps({"element": row}).encode(), chance)
                await socket.send(content.decode("utf-8", "replace"))
                answer = await socket.recv()
                leaks += bool(PATH_OR_TRACE.search(answer if isinstance(answer, bytes) else answer.encode()))
                messages += 1
    return {"requests": count, "answers": dict(sorted(statuses.items())), "stream_messages": messages, "leaks": leaks}


def schemathesis(port: int, examples: int, seed: int) -> dict[str, Any]:
    """Run schemathesis on all routes, with the check that no answer is a server error."""
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or shutil.which("schemathesis")
    if program is None:
        return {"run": False, "reason": "schemathesis is not installed"}
    command = [
        program, "run", f"http://127.0.0.1:{port}/openapi.json", "--checks", "not_a_server_error", "--max-examples",
        str(examples), "--seed", str(seed), "--mode", "all", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    shown = re.sub(r"http://\S+", "", done.stdout)
    generated = re.search(r"([\d,]+) generated", shown)
    return {
        "run": True,
        "exit": done.returncode,
        "test_cases": None if generated is None else int(generated[1].replace(",", "")),
        "summary": shown.strip().splitlines()[-1].strip("= "),
    }


async def soak(server: Server, folder: Path, requests: list[bytes], seconds: float, rate: float, seed: int) -> Any:
    """Send requests at a fixed rate while the model is written again and again, and clients are killed."""
    chance, statuses, killed, reloads = random.Random(seed), Counter[int](), 0, 0
    began = time.perf_counter()
    memory: list[tuple[float, float]] = []
    clients = 16

    async def work(number: int) -> None:
        nonlocal killed
        client, place = Client(server.port), number
        await asyncio.sleep(number / rate)
        while time.perf_counter() - began < seconds:
            due = time.perf_counter() + clients / rate
            sending = client.send("/api/predict", requests[place % len(requests)])
            if chance.random() < 0.01:
                task = asyncio.ensure_future(sending)
                await asyncio.sleep(0.002)
                client.close()
                await asyncio.gather(task, return_exceptions=True)
                client.close()
                killed += 1
            else:
                statuses[(await sending)[0]] += 1
            place += clients
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        client.close()

    async def watch() -> None:
        nonlocal reloads
        file = folder / "model.safetensors"
        content = file.read_bytes()
        while time.perf_counter() - began < seconds:
            await asyncio.sleep(5)
            memory.append((round(time.perf_counter() - began, 1), server.megabytes))
            part = file.with_suffix(".part")
            part.write_bytes(content if reloads % 4 else content[:-9])  # every fourth is damaged
            os.replace(part, file)
            reloads += 1
            await asyncio.sleep(0)
        os.replace(shutil.copy(folder / "original", folder / "restored"), file)

    shutil.copy(folder / "model.safetensors", folder / "original")
    await asyncio.gather(watch(), *(work(number) for number in range(clients)))
    await asyncio.sleep(2)
    return {
        "seconds": seconds,
        "requests": sum(statuses.values()),
        "rate": round(rate, 1),
        "errors": sum(count for status, count in statuses.items() if status != 200),
        "killed_clients": killed,
        "files_written": reloads,
        "memory_mb": memory[:: max(1, len(memory) // 20)] + memory[-1:],
        "descriptors": server.descriptors,
    }


def main() -> None:
    """Run all parts, and write their results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path)
    options.add_argument("--load", type=float, default=60)
    options.add_argument("--soak", type=float, default=1800)
    options.add_argument("--malformed", type=int, default=10_000)
    options.add_argument("--examples", type=int, default=100, help="examples per route of schemathesis")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    results: dict[str, Any] = {"seed": given.seed, "hardware": hardware(), "versions": versions(), "samples": 10}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "digits"
        shutil.copytree(given.model, folder)
        server = Server(folder)
        requests = bodies("digits")
        try:
            results["seconds_to_start"] = server.seconds_to_start
            asyncio.run(measure(server.port, requests, 1, 2))
            results["single"] = asyncio.run(measure(server.port, requests, 1, 10))
            before = server.megabytes
            results["load"] = asyncio.run(measure(server.port, requests, 32, given.load))
            results["load"] |= {"memory_before_mb": before, "memory_after_mb": server.megabytes}
            results["malformed"] = asyncio.run(malformed(server.port, "digits", given.malformed, given.seed))
            results["schemathesis"] = schemathesis(server.port, given.examples, given.seed)
            results["descriptors_before_soak"] = server.descriptors
            rate = results["load"]["predictions_per_second"] / 2
            results["soak"] = asyncio.run(soak(server, folder, requests, given.soak, rate, given.seed))
            results["memory_at_end_mb"] = server.megabytes
        finally:
            printed = server.stop()
        results["server_errors_printed"] = printed.count("Traceback")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
