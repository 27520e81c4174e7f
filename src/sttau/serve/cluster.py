"""The same application as several replicas on Ray Serve."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sttau.serve.settings import Settings

#: Name of the application on the cluster.
NAME = "sttau"

#: Seconds that the process that takes requests has to start; Ray's own 5 are too few where PyTorch is loaded by many.
_START = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60"}


def serve_on_ray(
    models: Sequence[Path],
    settings: Settings,
    host: str,
    port: int,
    replicas: int,
    ready: Callable[[int, str], None],
    stop: threading.Event | None = None,
) -> None:
    """Serve models with several replicas, on the cluster that ``RAY_ADDRESS`` names or on one that is started here.

    Every replica loads the models itself and loads them again when their files change, so the paths must be the same on
    all machines. A replica that dies is started again; a request that it had accepted fails, and the client sends it
    again.

    Args:
        models: Absolute paths of the models.
        settings: Limits and the token; they hold for each replica.
        host: Address to listen on.
        port: Port to listen on.
        replicas: Number of replicas, a CPU core each.
        ready: Called with the number of replicas and the address, when all are ready.
        stop: Event that ends serving; a keyboard interrupt does so, too.
    """
    for name, seconds in _START.items():
        os.environ.setdefault(name, seconds)  # read when Ray Serve is imported
    try:
        import ray

        serve: Any = import_module("ray.serve")  # its types are incomplete
    except ImportError as error:
        raise ImportError('--on ray needs Ray Serve: pip install "sttau[cluster]"') from error
    address = os.environ.get("RAY_ADDRESS")
    if not ray.is_initialized():
        options = {"address": address} if address else {"num_cpus": replicas + 1, "include_dashboard": False}
        ray.init(log_to_driver=False, configure_logging=False, **options)
    try:
        serve.start(http_options={"host": host, "port": port})
        serve.run(_application(models, settings, replicas), name=NAME, route_prefix="/")
        ready(replicas, f"http://{host}:{port}/")
        (stop or threading.Event()).wait()
    finally:
        serve.shutdown()
        if not address:
            ray.shutdown()


def _application(models: Sequence[Path], settings: Settings, replicas: int) -> Any:
    """Return the application as a deployment; each replica makes its own."""
    serve: Any = import_module("ray.serve")
    paths = [str(path) for path in models]

    def build() -> Any:
        import torch

        from sttau.serve import create_app

        torch.set_num_threads(1)
        return create_app(paths, settings)

    @serve.deployment(
        name=NAME,
        num_replicas=replicas,
        max_ongoing_requests=settings.max_waiting,
        ray_actor_options={"num_cpus": 1},
        health_check_period_s=2,
    )
    @serve.ingress(build)
    class Replica:
        """The application in a process of its own."""

    deployment: Any = Replica
    return deployment.bind()
