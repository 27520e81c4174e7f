"""``sttau serve``: models over HTTP, and a page that shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sttau.cli.common import ThreadsOption, count, plain_errors, print_line, set_threads, usage_error

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    models: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of sttau train, saved models (.safetensors), or folders that contain them."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="STTAU_TOKEN", help="Bearer token that requests must send.")
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="Accepted name in the Host header; repeatable.")] = None,
    max_bytes: Annotated[int, typer.Option(min=1024, help="Largest size of a request body, in bytes.")] = 8 << 20,
    max_sequences: Annotated[int, typer.Option(min=1, help="Largest number of sequences per request.")] = 4096,
    max_steps: Annotated[int, typer.Option(min=1, help="Largest number of steps per sequence.")] = 10_000,
    max_samples: Annotated[int, typer.Option(min=1, help="Largest number of Monte Carlo samples per member.")] = 100,
    max_waiting: Annotated[int, typer.Option(min=1, help="Largest number of concurrent requests.")] = 256,
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit of a request, in seconds.")] = 30.0,
    threads: ThreadsOption = 1,
    on: Annotated[str, typer.Option(help="Where the application runs: here, or ray for several replicas.")] = "here",
    replicas: Annotated[int, typer.Option(min=1, max=1000, help="Number of replicas on Ray.")] = 2,
) -> None:
    """Serve models: a page in the browser, an HTTP interface, and the Open Inference Protocol.

    Example: sttau serve quickstart/models
    """
    from sttau.serve import Settings, create_app
    from sttau.serve.cluster import serve_on_ray

    if on not in ("here", "ray"):
        usage_error(f"--on must be here or ray, got {on!r}")
    if not models:
        found = Path("quickstart/models")
        ready = (
            "sttau serve quickstart/models"
            if found.is_dir()
            else "sttau quickstart, then sttau serve quickstart/models"
        )
        usage_error(f"name a model, for instance the folder of sttau train. To try it: {ready}")
    hosts = tuple(allow_host or ()) or (("127.0.0.1", "localhost", "[::1]") if host in _LOOPBACK else ())
    set_threads(threads)
    with plain_errors():
        settings = Settings(
            token=token, hosts=hosts, max_bytes=max_bytes, max_sequences=max_sequences, max_steps=max_steps,
            max_samples=max_samples, max_waiting=max_waiting, timeout=timeout,
        )  # fmt: skip
        if on == "ray":
            serve_on_ray([model.resolve() for model in models], settings, host, port, replicas, _announce)
            return
        app = create_app(models, settings)
        _run(app, host, port, settings.max_bytes, timeout)


def _run(app: Any, host: str, port: int, max_bytes: int, timeout: float) -> None:
    """Listen until interrupted."""
    import socket

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once, without waiting for more (TCP_NODELAY), only where the protocol is named.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
        server = app.state.server
        shown = f"[{host}]" if ":" in host else host
        print_line(f"{count(len(server.registry), 'model')}: {', '.join(server.registry.names)}")
        print_line(f"http://{shown}:{listener.getsockname()[1]}/  (stop with Ctrl-C)", style="green")
        if host not in _LOOPBACK and server.settings.token is None:
            print_line("Whoever reaches this address can use the models; --token asks for a token.", style="yellow")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws_max_size=max_bytes,
            timeout_keep_alive=10,
            server_header=False,
            limit_concurrency=4096,  # connections, whether or not they ever send a request
            timeout_graceful_shutdown=max(1, int(timeout)),
        )
        uvicorn.Server(config).run(sockets=[listener])


def _announce(replicas: int, address: str) -> None:
    """Say where the replicas listen."""
    print_line(f"{count(replicas, 'replica')} on Ray")
    print_line(f"{address}  (stop with Ctrl-C)", style="green")
