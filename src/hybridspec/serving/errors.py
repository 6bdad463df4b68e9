"""What a client is told when something does not fit: one sentence, in OpenAI's shape."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from hybridspec.errors import HybridSpecError, OptionError

logger = logging.getLogger("hybridspec.serving")

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    503: "unavailable_error",
}
DEFECT = "The server failed at this request; its log says how. Other requests are not affected."


class ApiError(HTTPException):
    """A request that is not served.

    Attributes:
        status_code: of HTTP.
        param: the request's parameter that is meant, if one is.
        code: a word for programs.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers=headers)
        self.param, self.code = param, code

    @property
    def body(self) -> dict[str, Any]:
        """The error as a client reads it."""
        kind = KINDS.get(self.status_code, "api_error" if self.status_code >= 500 else KINDS[400])
        error = {"message": self.detail, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


def shutting_down() -> ApiError:
    """What clients are told whose answers the server's end cuts off."""
    return ApiError(503, "The server is shutting down.", code="shutting_down")


def refusal(error: BaseException, *, param: str | None = None) -> ApiError:
    """What a client is told of an error of the engine's.

    Args:
        error: a HybridSpecError is the request's; whatever else is a defect, which is logged.
        param: what is meant where the error does not say.
    """
    if isinstance(error, ApiError):
        return error
    if isinstance(error, OptionError):
        return ApiError(400, str(error), param=error.name, code="invalid_value")
    if isinstance(error, HybridSpecError):
        return ApiError(400, str(error), param=param, code="invalid_value")
    logger.error("A request failed.", exc_info=error)
    return ApiError(500, DEFECT, code="internal_error")


def error_response(error: ApiError) -> Response:
    """The error alone. ASCII, since what it quotes may be no Unicode."""
    body = json.dumps(error.body)
    return Response(
        body, error.status_code, media_type="application/json", headers=dict(error.headers or {})
    )


def add_handlers(app: FastAPI) -> None:
    """Give every error of an application this shape."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(_invalid(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        return error_response(error if isinstance(error, ApiError) else _plain(error))

    @app.exception_handler(Exception)
    async def other(_: Request, error: Exception) -> Response:
        return error_response(refusal(error))

    @app.exception_handler(HybridSpecError)
    async def ours(_: Request, error: HybridSpecError) -> Response:
        return error_response(refusal(error))


def _plain(error: HTTPException) -> ApiError:
    """An error of the framework: a route, a method or a body that is none."""
    said = str(error.detail).rstrip(".")
    return ApiError(error.status_code, f"{said}.", headers=error.headers)


def _invalid(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """The first thing that does not fit the request's model."""
    error = errors[0]
    path = tuple(error["loc"])[1:]
    if error["type"] == "json_invalid":
        said = error["ctx"]["error"]
        return ApiError(400, f"The body is not JSON: {said}.", code="invalid_json")
    if not path:
        message = "The body is no JSON object; expected one, with the header Content-Type: "
        return ApiError(400, message + "application/json.", code="invalid_json")
    param = name_of(path)
    said = str(error["msg"]).rstrip(".")
    if error["type"] == "missing":
        return ApiError(400, f"{param} is missing.", param=param, code="missing_required_parameter")
    said = said[0].lower() + said[1:]
    return ApiError(400, f"{param} cannot be used: {said}.", param=param, code="invalid_value")


def name_of(path: Sequence[str | int]) -> str:
    """A place in a body as people write it: `messages[0].role`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).removeprefix(".")
