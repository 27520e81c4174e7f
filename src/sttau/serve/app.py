"""The application: routes of the interface, of the Open Inference Protocol, and of the page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from sttau.serve.answers import answer, describe_model
from sttau.serve.batching import Batcher, Job, Predicted
from sttau.serve.bodies import PredictBody, Sampling, TooLargeError, make_job, plain
from sttau.serve.counters import Counters
from sttau.serve.files import ENDINGS, evaluate_data, hide_paths, predict_data, read_upload
from sttau.serve.guard import Guard
from sttau.serve.machine import Form, Kind, automaton_text, automaton_view
from sttau.serve.registry import Registry
from sttau.serve.settings import Settings
from sttau.serve.streams import Streams
from sttau.serve.v2 import InferBody, infer_answer, infer_inputs, model_metadata
from sttau.version import __version__

Value = TypeVar("Value")

STATIC = Path(__file__).parent / "static"
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": text, "content": {"application/json": {"example": {"error": "one sentence"}}}}
    for code, text in (
        (400, "The body is not valid JSON."),
        (401, "A token is needed."),
        (404, "There is no such model."),
        (413, "The request is beyond a limit."),
        (422, "The request does not fit the model."),
        (429, "Too many requests at a time."),
    )
}
_FILE_BODY: dict[str, Any] = {
    "requestBody": {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "Content of the file."}
}
ModelQuery = Annotated[str | None, Query(max_length=200, description="Name of the model.")]
FileName = Annotated[str, Query(max_length=200, description=f"Name of the file; it ends in {', '.join(ENDINGS)}.")]
SamplesQuery = Annotated[int, Query(ge=1, le=1_000_000, description="Monte Carlo samples per member.")]
SeedQuery = Annotated[int, Query(ge=0, lt=2**63, description="Seed of the sampling noise.")]
LevelQuery = Annotated[float, Query(gt=0, lt=1, description="Level of conformal sets and intervals.")]


class Server:
    """What the routes share: models, threads, counts.

    Args:
        registry: Models.
        settings: Limits.
    """

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self.registry, self.settings, self.counters = registry, settings, Counters()
        self.batcher = Batcher(settings.batch_work)
        self.streams = Streams(registry, settings)
        self._slow = ThreadPoolExecutor(1, "sttau-slow")  # files and automata, one at a time
        self._files = 0

    async def predict(self, job: Job) -> Predicted:
        """Predict in the batch of the moment."""
        future = self.batcher.submit(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.settings.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise HTTPException(503, "the prediction took too long; send less at a time") from None

    async def slowly(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in the thread of slow requests."""
        if self._files >= 8:
            raise HTTPException(429, "too many files or automata at a time; try again later")
        self._files += 1
        try:
            work = asyncio.get_running_loop().run_in_executor(self._slow, lambda: function(*arguments))
            return await asyncio.wait_for(work, self.settings.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise HTTPException(503, "the answer took too long; send less at a time") from None
        finally:
            self._files -= 1

    async def watch(self) -> None:
        """Load changed models, again and again."""
        while self.settings.reload_seconds:
            await asyncio.sleep(self.settings.reload_seconds)
            await asyncio.to_thread(self.registry.refresh)

    def close(self) -> None:
        """End the threads."""
        self.batcher.close()
        self._slow.shutdown(wait=False, cancel_futures=True)

    def metrics(self) -> str:
        """Return all counts as text."""
        return self.counters.text(
            [
                ("sttau_batches_total", "counter", "Batches computed.", self.batcher.batches),
                ("sttau_sequences_total", "counter", "Sequences predicted in batches.", self.batcher.sequences),
                ("sttau_waiting", "gauge", "Requests in the queue of predictions.", self.batcher.waiting),
                ("sttau_streams", "gauge", "Open streams.", self.streams.open),
                ("sttau_models", "gauge", "Models served.", len(self.registry)),
                ("sttau_reloads_total", "counter", "Models loaded again.", self.registry.reloads),
                ("sttau_reload_failures_total", "counter", "Changed files refused.", self.registry.failures),
            ]
        )


def build_app(models: Sequence[str | os.PathLike[str]], settings: Settings) -> FastAPI:
    """Return the application; see :func:`sttau.serve.create_app`."""
    server = Server(Registry(models, settings.warmup), settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(server.watch())
        yield
        watch.cancel()
        server.close()

    app = FastAPI(
        title="sttau",
        version=__version__,
        description="Predictions of recurrent networks with their uncertainty.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    app.state.server = server
    _add_errors(app)
    _add_interface(app, server)
    _add_protocol(app, server)
    _add_page(app)
    app.add_middleware(Guard, settings=settings, counters=server.counters)
    return app


def _add_errors(app: FastAPI) -> None:
    """Answer every error as JSON with one sentence, without a path."""

    @app.exception_handler(HTTPException)
    async def known(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": hide_paths(str(error.detail))}, error.status_code)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query")) or "the body"
        status = 400 if first["type"].startswith("json") else 422
        return JSONResponse({"error": hide_paths(f"{where}: {first['msg']}")[:500]}, status)

    @app.exception_handler(TooLargeError)
    async def large(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 413)

    @app.exception_handler(LookupError)
    async def missing(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error.args[0])[:2000]}, 404)

    @app.exception_handler(ValueError)
    @app.exception_handler(TypeError)
    async def unfit(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": hide_paths(str(error))[:2000]}, 422)


def _add_interface(app: FastAPI, server: Server) -> None:
    registry, settings = server.registry, server.settings

    @app.get("/healthz", summary="Whether the server runs")
    async def healthz() -> dict[str, Any]:
        return {"status": "ok", "models": len(registry)}

    @app.get("/metrics", summary="Counts for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(server.metrics(), media_type="text/plain; version=0.0.4")

    @app.get("/api/models", summary="All models")
    async def models() -> JSONResponse:
        return JSONResponse({"version": __version__, "models": [describe_model(served) for served in registry]})

    @app.get("/api/examples", summary="Examples of a model, with their targets")
    async def examples(
        model: ModelQuery = None, index: Annotated[int | None, Query(ge=0, description="Number of one.")] = None
    ) -> JSONResponse:
        return JSONResponse(await server.slowly(_examples, registry.get(model), index))

    @app.post("/api/predict", summary="Predict sequences, with uncertainty")
    async def predict(body: PredictBody) -> JSONResponse:
        served = registry.get(body.model)
        job = make_job(served.model, body.inputs, body, settings, per_step=body.per_step)
        found = await server.predict(job)
        return JSONResponse(answer(served, job, found, body.level))

    @app.post("/api/file", summary="Predict the series of a file", openapi_extra=_FILE_BODY)
    async def file(
        request: Request,
        name: FileName,
        model: ModelQuery = None,
        samples: SamplesQuery = 10,
        seed: SeedQuery = 0,
        level: LevelQuery = 0.9,
    ) -> JSONResponse:
        served, content = registry.get(model), await request.body()

        def work() -> dict[str, Any]:
            data = read_upload(served.model, content, name, settings)
            return predict_data(served.model, data, Sampling(samples=samples, seed=seed), level, settings)

        return JSONResponse({"model": served.name, "version": served.version} | await server.slowly(work))

    @app.post(
        "/api/evaluate",
        summary="Evaluate a model on the labeled series of a file, or without a body on its examples",
        openapi_extra=_FILE_BODY,
    )
    async def evaluate(
        request: Request,
        model: ModelQuery = None,
        name: FileName = "file.csv",
        samples: SamplesQuery = 10,
        seed: SeedQuery = 0,
    ) -> JSONResponse:
        served, content = registry.get(model), await request.body()

        def work() -> dict[str, Any]:
            data = read_upload(served.model, content, name, settings) if content else served.examples()
            return evaluate_data(served.model, data, Sampling(samples=samples, seed=seed), settings)

        return JSONResponse({"model": served.name, "version": served.version} | await server.slowly(work))

    @app.get("/api/automaton", summary="The automaton that a model is")
    async def automaton(
        model: ModelQuery = None,
        kind: Kind = "dfa",
        form: Annotated[Form, Query(description="view: with positions and matrices")] = "view",
        accept: Annotated[int | None, Query(ge=0, description="Class of accepted strings.")] = None,
    ) -> Response:
        served = registry.get(model)
        if form == "view":
            return JSONResponse(await server.slowly(automaton_view, served.model, kind, accept, settings.max_states))
        text, media = await server.slowly(automaton_text, served.model, kind, accept, form)
        return Response(text, media_type=media)

    @app.websocket("/api/stream")
    async def stream(socket: WebSocket) -> None:
        await server.streams.serve(socket)


def _examples(served: Any, index: int | None) -> dict[str, Any]:
    """Return the names and targets of a model's examples; of one, its inputs too."""
    data = served.examples()
    names = list(data.ids) if data.ids is not None else [str(number) for number in range(1, len(data) + 1)]
    labels = [data.class_names[n] if n >= 0 else None for n in data.labels.tolist()] if data.class_names else None
    targets = labels if labels is not None else plain(data.labels)
    if index is None:
        most = 500
        return {"names": names[:most], "targets": targets[:most]}
    if index >= len(data):
        raise LookupError(f"index must be below {len(data)}, the number of examples")
    inputs = data.inputs[index, : int(data.lengths[index])]
    if data.vocabulary is not None:
        tokens = [data.vocabulary[token] for token in inputs.tolist()]
        text = "".join(tokens[1:]) if tokens[0] == "^" else " ".join(tokens)
        return {"name": names[index], "target": targets[index], "inputs": text}
    return {"name": names[index], "target": targets[index], "inputs": plain(inputs)}


def _add_protocol(app: FastAPI, server: Server) -> None:
    registry = server.registry

    @app.get("/v2", summary="Server metadata")
    async def metadata() -> dict[str, Any]:
        return {"name": "sttau", "version": __version__, "extensions": []}

    @app.get("/v2/health/live", summary="Whether the server runs")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready", summary="Whether all models are loaded")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    @app.get("/v2/models/{name}", summary="Model metadata")
    async def model(name: str) -> JSONResponse:
        served = registry.get(name)
        return JSONResponse(model_metadata(served.name, served.version, served.model))

    @app.get("/v2/models/{name}/ready", summary="Whether a model is loaded")
    async def model_ready(name: str) -> dict[str, Any]:
        return {"name": registry.get(name).name, "ready": True}

    @app.post("/v2/models/{name}/infer", summary="Inference")
    async def infer(name: str, body: InferBody) -> JSONResponse:
        served = registry.get(name)
        job = make_job(served.model, infer_inputs(body, served.model), body.parameters, server.settings)
        found = await server.predict(job)
        return JSONResponse(infer_answer(served.name, served.version, body, served.model, found))


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def favicon() -> FileResponse:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
