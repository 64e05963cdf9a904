"""The shared state of a console's pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pyjms_broker.console.model.problems import problems
from pyjms_broker.console.model.rates import Rates
from pyjms_broker.console.notices import Notice, Notices
from pyjms_broker.console.rendering import BASE, render
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.management import Management
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.user import NOBODY, Access

__all__ = ["Console", "page_of"]


class Console:
    """The shared state of one console's pages. Use it on the broker's event loop.

    Args:
        web: the web server's context.
    """

    def __init__(self, web: WebContext) -> None:
        self.web = web
        self.rates = Rates()
        self._notices = Notices()

    @property
    def management(self) -> Management:
        """The management views of the broker."""
        return self.web.management

    @property
    def tree(self) -> ManagementContext:
        """The context of the views: region broker and names."""
        return self.web.management.context

    def may_change(self, request: Request) -> bool:
        """Return whether the user may make changes."""
        return self.web.user(request).may(Access.ADMINISTRATOR)

    def page(
        self, request: Request, template: str, /, *, status: int = 200, **values: Any
    ) -> Response:
        """Render a page's template with values, or only its live part."""
        only_live = request.headers.get("hx-request") == "true"
        return render(
            template, {**self._common(request), **values}, only_live=only_live, status=status
        )

    def error_page(self, request: Request, text: str, hint: str | None, status: int) -> Response:
        """Return a page that describes an error: what is wrong, where, what to do."""
        notice = Notice(text, hint or "", is_error=True)
        return render(
            "error.html",
            {**self._common(request), "title": "Error", "notice": notice},
            status=status,
        )

    def redirect(self, request: Request, page: str, notice: Notice) -> Response:
        """Redirect the browser to a page that shows a notice."""
        key = self._notices.add(self.web.user(request).name, notice)
        separator = "&" if "?" in page else "?"
        return RedirectResponse(f"{BASE}/{page}{separator}{urlencode({'notice': key})}", 303)

    def _common(self, request: Request) -> dict[str, Any]:
        user = self.web.user(request)
        known = user is not NOBODY
        found = problems(self.tree) if known else []
        return {
            "broker_name": self.tree.host.broker_name if known else "",
            "user": user.name,
            "known": known,
            "logged_in": bool(user.name),
            "may_change": self.may_change(request),
            "token": self.web.form_token(request) if known else "",
            "notice": self._notices.take(user.name, request.query_params.get("notice")),
            "path": request.url.path.removeprefix(BASE).strip("/"),
            "here": _without_notice(request),
            "problem_count": len(found),
            "serious_count": sum(each.serious for each in found),
        }


def _without_notice(request: Request) -> str:
    """Return the page and its query, to which forms return after an action."""
    query = [
        (name, value) for name, value in request.query_params.multi_items() if name != "notice"
    ]
    page = request.url.path.removeprefix(BASE).strip("/")
    return f"{page}?{urlencode(query)}" if query else page


def page_of(
    template: str, title: str, **values: Callable[[Console], object]
) -> Callable[[Console, Request], Awaitable[Response]]:
    """Return a page without parameters, whose values the functions read from the broker."""

    async def show(console: Console, request: Request) -> Response:
        read: dict[str, Any] = {name: value(console) for name, value in values.items()}
        return console.page(request, template, title=title, **read)

    return show
