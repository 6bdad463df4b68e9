"""What the server says of itself: its models, its health, its figures."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response

from hybridspec import __version__
from hybridspec.checks import brief
from hybridspec.serving.errors import ApiError
from hybridspec.serving.metrics import Metrics
from hybridspec.serving.settings import Settings
from hybridspec.serving.worker import Worker

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def check_model(name: str | None, settings: Settings) -> None:
    """Refuse a model that is not served.

    Raises:
        ApiError: it is not.
    """
    if name is not None and name not in settings.names:
        said = f"The model {brief(name)} is not served here; expected {settings.name!r}."
        raise ApiError(404, said, param="model", code="model_not_found")


def info_routes(worker: Worker, metrics: Metrics, settings: Settings) -> APIRouter:
    """The routes that ask nothing of the engine."""
    router = APIRouter()
    began = int(time.time())

    def document(name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": began,
            "owned_by": "hybridspec",
            "max_model_len": worker.engine.max_context,
        }

    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The served model, under each of its names."""
        return {"object": "list", "data": [document(name) for name in settings.names]}

    @router.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """The served model."""
        check_model(name, settings)
        return document(name)

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health(response: Response) -> dict[str, str]:
        """Whether requests are served: 503 while the model loads and where it fails."""
        response.status_code = 200 if worker.state == "ok" else 503
        return {"status": worker.state}

    @router.get("/metrics")
    async def figures() -> Response:
        """Figures for Prometheus."""
        return Response(metrics.text(), media_type=PROMETHEUS)

    @router.get("/version")
    async def version() -> dict[str, str]:
        """The version of hybridspec."""
        return {"version": __version__}

    return router
