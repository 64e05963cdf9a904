"""Health checks for orchestrators: `/health/live` and `/health/ready`, without a login.

A broker whose memory or store is full stays ready: senders wait, and the consumers that free space
must still reach it.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pyjms_broker.web.context import WebContext
from pyjms_broker.web.user import Access


def routes(context: WebContext) -> list[BaseRoute]:
    """Return the routes of the health checks."""
    context.allow("/health", Access.ANYBODY)

    async def live(_: Request) -> Response:
        """Respond as long as the event loop is running."""
        return JSONResponse({"status": "up"})

    async def ready(_: Request) -> Response:
        """Report whether clients should connect, with status 503 if not."""
        reason = reason_not_ready(context)
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": reason}, 503, {"Retry-After": "5"})

    return [Route("/health/live", live), Route("/health/ready", ready)]


def reason_not_ready(context: WebContext) -> str | None:
    """Return the reason for being not ready: stopping, slave, starting, store_failed; or None."""
    service = context.service
    if context.stopping.is_set():
        return "stopping"
    if not service.started:
        return "slave" if service.slave else "starting"
    return "store_failed" if service.store_failed else None
