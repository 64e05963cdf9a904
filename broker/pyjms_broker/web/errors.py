"""Errors of requests, and their JSON responses: what is wrong, where, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    MessageFormatException,
)
from pyjms_broker.management.errors import InstanceNotFoundException, ManagementException

__all__ = ["WebError", "error_response", "exception_handlers", "response_to"]


class WebError(Exception):
    """A request that gets an error response.

    Args:
        status: the HTTP status.
        message: what is wrong.
        hint: what to do.
        headers: additional headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.headers = headers


def error_response(
    path: str,
    status: int,
    message: str,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the JSON response for an error: status, error, path and, if given, hint."""
    content: dict[str, object] = {"status": status, "error": message, "path": path[:200]}
    if hint:
        content["hint"] = hint
    return JSONResponse(content, status, headers)


_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (JMSSecurityException, 403),
    (InstanceNotFoundException, 404),
    (ManagementException, 400),
    (ConfigurationException, 400),  # raised for options of a destination
    (InvalidDestinationException, 400),
    (InvalidSelectorException, 400),
    (MessageFormatException, 400),
    (IllegalStateException, 409),
    (JMSException, 500),
)


def response_to(connection: HTTPConnection, error: Exception) -> Response:
    """Return the response to an error; unexpected errors are only described in the log (`gate`)."""
    path = str(connection.scope["path"])
    if isinstance(error, WebError):
        return error_response(path, error.status, error.message, error.hint, error.headers)
    if isinstance(error, HTTPException):
        return error_response(path, error.status_code, error.detail, None, error.headers)
    for kind, status in _STATUS:
        if isinstance(error, kind):
            assert isinstance(error, JMSException)
            return error_response(path, status, error.reason, error.hint)
    return error_response(path, 500, "The request has failed", "the broker's log has the reason")


async def _answer(request: Request, error: Exception) -> Response:
    return response_to(request, error)


exception_handlers: Final = dict.fromkeys(
    (WebError, HTTPException, JMSException, Exception), _answer
)
"""The exception handlers for starlette."""
