"""Counts of what the server did, in the text format of Prometheus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counters:
    """Requests by route and status, and how long they took.

    Example:
        >>> counters = Counters()
        >>> counters.observe("/api/predict", 200, 0.02)
        >>> [line for line in counters.text([]).splitlines() if 'status="200"' in line]
        ['sttau_requests_total{route="/api/predict",status="200"} 1']
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._count = 0

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._requests[route, status] += 1
        self._seconds += seconds
        self._count += 1
        for bound in _BUCKETS:
            self._buckets[bound] += seconds <= bound

    def text(self, more: Iterable[tuple[str, str, str, float]]) -> str:
        """Return all counts.

        Args:
            more: Name, kind, help and value of further metrics.
        """
        lines = ["# HELP sttau_requests_total Responses by route and status.", "# TYPE sttau_requests_total counter"]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(f'sttau_requests_total{{route="{route}",status="{status}"}} {count}')
        lines += ["# HELP sttau_request_seconds Duration of requests.", "# TYPE sttau_request_seconds histogram"]
        lines += [f'sttau_request_seconds_bucket{{le="{bound}"}} {self._buckets[bound]}' for bound in _BUCKETS]
        lines.append(f'sttau_request_seconds_bucket{{le="+Inf"}} {self._count}')
        lines += [f"sttau_request_seconds_sum {self._seconds:.6f}", f"sttau_request_seconds_count {self._count}"]
        for name, kind, about, value in (*more, *_memory()):
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _memory() -> Iterable[tuple[str, str, str, float]]:
    status = Path("/proc/self/statm")
    if status.exists():
        pages = int(status.read_text("ascii").split()[1])
        yield "process_resident_memory_bytes", "gauge", "Resident memory.", float(pages * os.sysconf("SC_PAGE_SIZE"))
