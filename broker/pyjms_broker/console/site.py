"""The console's routes, and the handling of pages' errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from pyjms.errors import InvalidDestinationException, JMSException, JMSSecurityException
from pyjms_broker.console import pages as clients
from pyjms_broker.console import pages as destinations
from pyjms_broker.console import pages as forms
from pyjms_broker.console import pages as login
from pyjms_broker.console import pages as messages
from pyjms_broker.console import pages as overview
from pyjms_broker.console.console import BASE, Console, asset
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.user import Access

__all__ = ["console_routes"]

_Page: TypeAlias = Callable[[Console, Request], Awaitable[Response]]

_PAGES: Final[dict[tuple[str, str], _Page]] = {
    ("GET", "/"): overview.home,
    ("GET", "/warnings"): overview.warnings_page,
    ("GET", "/search"): overview.search_page,
    ("GET", "/queues"): destinations.queues,
    ("GET", "/queue"): destinations.queue,
    ("GET", "/topics"): destinations.topics,
    ("GET", "/topic"): destinations.topic,
    ("GET", "/subscribers"): clients.subscribers_page,
    ("GET", "/connections"): clients.connections,
    ("GET", "/connection"): clients.connection,
    ("GET", "/network"): clients.network,
    ("GET", "/scheduled"): clients.scheduled,
    ("GET", "/browse"): messages.browse,
    ("GET", "/message"): messages.message,
    ("GET", "/dead-letters"): messages.dead_letters,
    ("GET", "/send"): messages.send,
    ("POST", "/send"): forms.send,
    ("GET", "/confirm"): forms.confirm,
    ("POST", "/actions/{action}"): forms.act,
    ("GET", "/login"): login.login_form,
    ("POST", "/login"): login.log_in,
    ("POST", "/logout"): login.log_out,
}
"""The pages by method and path below /admin."""

_STATUS: Final = (
    (JMSSecurityException, 403),
    ((InstanceNotFoundException, InvalidDestinationException), 404),
    (JMSException, 400),
)


def console_routes(context: WebContext) -> list[BaseRoute]:
    """Return the routes of the console, and set its login page for browsers.

    (docs/extending.md, "A part of the web site")
    """
    console = Console(context)
    context.login_page = f"{BASE}/login"
    context.allow(BASE, Access.READER, Access.ADMINISTRATOR)
    for path in ("/login", "/static"):
        context.allow(BASE + path, Access.ANYBODY)
    context.allow(f"{BASE}/logout", Access.USER)
    below: list[BaseRoute] = [Route("/static/{name}", asset)]
    below += [
        Route(path, _endpoint(console, page), methods=[method])
        for (method, path), page in _PAGES.items()
    ]
    return [Route("/", _to_console), Route(BASE, _to_console), Mount(BASE, routes=below)]


async def _to_console(_: Request) -> Response:
    return RedirectResponse(f"{BASE}/", 307)


def _endpoint(console: Console, page: _Page) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        try:
            return await page(console, request)
        except WebError as error:
            return console.error_page(request, error.message, error.hint, error.status)
        except JMSException as error:
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            return console.error_page(request, error.reason, error.hint, status)

    return serve
