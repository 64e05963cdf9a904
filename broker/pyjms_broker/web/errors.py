"""Errors of requests, and their JSON responses: what is wrong, where, what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from pyjms import errors
from pyjms_broker.management.errors import InstanceNotFoundException, ManagementException


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


_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.JMSSecurityException, 403),
    (InstanceNotFoundException, 404),
    (ManagementException, 400),
    (errors.ConfigurationException, 400),  # raised for options of a destination
    (errors.InvalidDestinationException, 400),
    (errors.InvalidSelectorException, 400),
    (errors.MessageFormatException, 400),
    (errors.IllegalStateException, 409),
    (errors.JMSException, 500),
)


def response_to(connection: HTTPConnection, error: Exception) -> Response:
    """Return the JSON response to an error: status, error, path and, if known, hint.

    Unexpected errors are described in the log only (`gate`).
    """
    hint: str | None = None
    headers: Mapping[str, str] | None = None
    if isinstance(error, WebError):
        status, message, hint, headers = error.status, error.message, error.hint, error.headers
    elif isinstance(error, HTTPException):
        status, message, headers = error.status_code, error.detail, error.headers
    elif isinstance(error, errors.JMSException):
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        message, hint = error.reason, error.hint
    else:
        status, message, hint = 500, "The request has failed", "the broker's log has the reason"
    path = str(connection.scope["path"])[:200]
    content: dict[str, object] = {"status": status, "error": message, "path": path}
    if hint:
        content["hint"] = hint
    # not starlette's JSONResponse, because names may contain lone surrogates
    return Response(json.dumps(content), status, headers, "application/json")


async def _answer(request: Request, error: Exception) -> Response:
    return response_to(request, error)


exception_handlers: Final = dict.fromkeys(
    (WebError, HTTPException, errors.JMSException, Exception), _answer
)
"""The exception handlers for starlette."""
