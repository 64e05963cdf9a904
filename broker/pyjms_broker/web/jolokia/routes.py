"""The routes of Jolokia: GET with the request in the path, POST with one or several as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.web.context import WebContext, client_address
from pyjms_broker.web.gate import check_origin
from pyjms_broker.web.jolokia.handlers import CHANGES, answer, error_answer
from pyjms_broker.web.jolokia.requests import JolokiaRequest, canonical, from_json, from_path
from pyjms_broker.web.user import Access

__all__ = ["routes"]

logger = get_logger(__name__)

_PATH: Final = "/api/jolokia"
_MAXIMUM: Final = 1000
"""The maximum number of requests in one POST."""


def routes(context: WebContext) -> list[BaseRoute]:
    """Return Jolokia's routes."""
    context.allow(_PATH, Access.READER, Access.READER)

    async def get(request: Request) -> Response:
        """Handle the request in the path."""
        check_origin(request, context)  # unlike usual, a GET may make changes
        path = str(request.scope["path"])[len(_PATH) :].strip("/")
        options = dict(request.query_params)
        return _json(await _answered(context, request, lambda: from_path(path, options)))

    async def post(request: Request) -> Response:
        """Handle the requests in the body."""
        body = await request.body()
        options = dict(request.query_params)
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            return _json(error_answer(InvalidArgumentException("Invalid JSON request")))
        if not isinstance(content, list):
            return _json(await _answered(context, request, lambda: from_json(content, options)))
        if len(content) > _MAXIMUM:
            text = f"There are {len(content)} requests, and one POST has at most {_MAXIMUM}"
            return _json(error_answer(InvalidArgumentException(text)))
        if any(not isinstance(each, dict) for each in content):
            try:
                from_json(next(e for e in content if not isinstance(e, dict)), options)
            except JMSException as error:
                return _json(error_answer(error))
        answers = [
            await _answered(context, request, lambda each=each: from_json(each, options))  # type: ignore[misc]
            for each in content
        ]
        return _json(answers)

    return [
        Route(_PATH, get, methods=["GET"]),
        Route(_PATH, post, methods=["POST"]),
        Route(f"{_PATH}/", post, methods=["POST"]),
        Route(f"{_PATH}/{{path:path}}", get, methods=["GET"]),
    ]


async def _answered(
    context: WebContext, request: Request, read: Callable[[], JolokiaRequest]
) -> dict[str, object]:
    try:
        asked = read()
        if asked.type in CHANGES:
            context.require(request, Access.ADMINISTRATOR)
            _log(context, request, asked)
    except JMSException as error:
        return error_answer(error)
    return await answer(context.management, asked)


def _log(context: WebContext, request: Request, asked: JolokiaRequest) -> None:
    """Log a change without arguments and values, which may be messages or passwords."""
    logger.info(
        "Jolokia: user %r at %s: %s %s of %s",
        context.user(request).name,
        client_address(request),
        asked.type,
        asked.operation or ",".join(asked.attributes),
        "nothing" if asked.name is None else canonical(asked.name),
    )


def _json(content: object) -> Response:
    # not starlette's JSONResponse, because messages may contain lone surrogates
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")
