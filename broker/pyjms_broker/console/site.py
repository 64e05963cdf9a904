"""The console's routes, and the handling of pages' errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from pyjms.errors import InvalidDestinationException, JMSException, JMSSecurityException
from pyjms_broker.console import pages
from pyjms_broker.console.console import BASE, Console, asset
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.user import Access

_Page: TypeAlias = Callable[[Console, Request], Awaitable[Response]]

_PAGES: Final[dict[tuple[str, str], _Page]] = {
    ("GET", "/"): pages.home,
    ("GET", "/warnings"): pages.warnings_page,
    ("GET", "/search"): pages.search_page,
    ("GET", "/queues"): pages.queues,
    ("GET", "/queue"): pages.queue,
    ("GET", "/topics"): pages.topics,
    ("GET", "/topic"): pages.topic,
    ("GET", "/subscribers"): pages.subscribers_page,
    ("GET", "/connections"): pages.connections,
    ("GET", "/connection"): pages.connection,
    ("GET", "/network"): pages.network,
    ("GET", "/scheduled"): pages.scheduled_jobs,
    ("GET", "/browse"): pages.browse,
    ("GET", "/message"): pages.message,
    ("GET", "/dead-letters"): pages.dead_letters,
    ("GET", "/send"): pages.send_page,
    ("POST", "/send"): pages.send,
    ("GET", "/confirm"): pages.confirm,
    ("POST", "/actions/{action}"): pages.act,
    ("GET", "/login"): pages.login_form,
    ("POST", "/login"): pages.log_in,
    ("POST", "/logout"): pages.log_out,
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
