"""The application: routes, guards and the worker's life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware.cors import CORSMiddleware

from hybridspec import __version__
from hybridspec.engine import Engine
from hybridspec.serving import errors
from hybridspec.serving.chat import Chat
from hybridspec.serving.chat_plan import plan_chat
from hybridspec.serving.completions import Completion, plan_completion
from hybridspec.serving.guards import BodyLimit, Guard, host_check, key_check
from hybridspec.serving.info import check_model, info_routes
from hybridspec.serving.jobs import Job
from hybridspec.serving.metrics import Metrics
from hybridspec.serving.page import page_route
from hybridspec.serving.prompts import tokenizer_of
from hybridspec.serving.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from hybridspec.serving.protocol import Request as Asked
from hybridspec.serving.settings import Settings
from hybridspec.serving.sse import CLOSED, EventStream, as_json, unless_gone
from hybridspec.serving.tokenizing import detokenize, tokenize, tokenizer_info
from hybridspec.serving.worker import Worker

NO_PAGES: dict[str, Any] = {"docs_url": None, "redoc_url": None}  # they load from elsewhere
ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"description": "An error in OpenAI's shape."}}


def create_app(engine: Engine | Callable[[], Engine], settings: Settings | None = None) -> FastAPI:
    """A server around one engine, as an ASGI application.

    Args:
        engine: loaded, or what loads it; the latter is called when the application starts.
        settings: how requests are served.
    """
    settings = settings or Settings()
    load = engine if callable(engine) else lambda: engine
    metrics = Metrics(settings.metrics_prefix, settings.name)
    worker = Worker(load, metrics, settings.max_waiting)
    app = FastAPI(title="HybridSpec", version=__version__, lifespan=_life(worker), **NO_PAGES)
    app.state.worker, app.state.settings = worker, settings
    errors.add_handlers(app)
    app.include_router(info_routes(worker, metrics, settings), responses=ERRORS)
    app.include_router(page_route())
    _add_completions(app, worker, settings)
    _add_tokens(app, worker, settings)
    _add_guards(app, settings)
    return app


def _life(worker: Worker) -> Any:
    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        await asyncio.to_thread(worker.stop)

    return life


def _add_guards(app: FastAPI, settings: Settings) -> None:
    """The last one added is asked first."""
    app.add_middleware(BodyLimit, most=settings.max_body)
    if settings.api_key is not None:
        app.add_middleware(Guard, check=key_check(settings.api_key))
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
    if settings.allowed_hosts:
        app.add_middleware(Guard, check=host_check(settings))


def _add_completions(app: FastAPI, worker: Worker, settings: Settings) -> None:
    @app.post("/v1/chat/completions", responses=ERRORS)
    async def chat(body: ChatRequest, request: Request) -> Response:
        """The assistant's next message."""
        _check(body, settings)
        plan = await asyncio.to_thread(plan_chat, worker.engine, settings, body)
        job = Job(worker, body, _client(body, request), plan.asks, settings.name)
        return await _answer(Chat(body, plan, job, tokenizer_of(worker.engine)), job, body, request)

    @app.post("/v1/completions", responses=ERRORS)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """What follows a prompt."""
        _check(body, settings)
        plan = await asyncio.to_thread(plan_completion, worker.engine, settings, body)
        client = _client(body, request)
        job = Job(worker, body, client, plan.asks, settings.name, answers=plan.answers)
        return await _answer(
            Completion(body, plan, job, tokenizer_of(worker.engine)), job, body, request
        )

    async def _answer(made: Chat | Completion, job: Job, body: Asked, request: Request) -> Response:
        if body.stream:
            return EventStream(made.events(), settings.keep_alive, job.close)
        try:
            document = await unless_gone(request, made.whole())
            if document is None:
                return Response(status_code=CLOSED)
            return Response(as_json(document), media_type="application/json")
        except Exception as error:
            raise errors.refusal(error) from error
        finally:
            job.close()


def _add_tokens(app: FastAPI, worker: Worker, settings: Settings) -> None:
    @app.post("/tokenize", responses=ERRORS)
    def to_tokens(body: TokenizeRequest) -> dict[str, Any]:
        """The token ids of a prompt or a conversation."""
        check_model(body.model, settings)
        return tokenize(worker.engine, settings, body)

    @app.post("/detokenize", responses=ERRORS)
    def to_text(body: DetokenizeRequest) -> dict[str, Any]:
        """The text of token ids."""
        check_model(body.model, settings)
        return detokenize(worker.engine, body)

    @app.get("/tokenizer_info", responses=ERRORS)
    def info() -> dict[str, Any]:
        """Special tokens and the chat template."""
        return tokenizer_info(worker.engine)


def _check(body: Asked, settings: Settings) -> None:
    check_model(body.model, settings)
    if body.stream_options is not None and not body.stream:
        said = "stream_options is for streams; set stream to true or leave it out."
        raise errors.ApiError(400, said, param="stream_options", code="invalid_value")


def _client(body: Asked, request: Request) -> str:
    """Who asks, for taking turns."""
    host = request.client.host if request.client is not None else ""
    return host if body.user is None else f"user:{body.user}"
