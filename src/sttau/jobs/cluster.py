"""Runs tasks on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from sttau.jobs.task import MAX_ATTEMPTS, Report, Task


def run_on_ray(tasks: Sequence[Task], workers: int, gpus: float) -> Iterator[Report]:
    """Run tasks on the cluster that ``RAY_ADDRESS`` names, or on one that is started here."""
    try:
        import ray
    except ImportError as error:
        raise ImportError('on="ray" needs Ray: pip install "sttau[cluster]"') from error
    started = not ray.is_initialized()
    if started:
        address = os.environ.get("RAY_ADDRESS")
        options = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, configure_logging=False, **options)
    try:
        compute = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=MAX_ATTEMPTS)(_reports)
        waiting = {compute.remote(task): task for task in tasks}
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            task = waiting.pop(done)
            try:
                yield from ray.get(done)
            except ray.exceptions.RayError as error:
                for cell in task.cells:
                    yield cell, None, f"its process ended {MAX_ATTEMPTS + 1} times: {error}"
    finally:
        if started:
            ray.shutdown()


def _reports(task: Task) -> list[Report]:
    return list(task.run())
