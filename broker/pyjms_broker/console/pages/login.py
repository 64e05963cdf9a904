"""Logging in and out with a form; the session's cookie then identifies the user."""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pyjms.errors import JMSException
from pyjms_broker.console.console import Console
from pyjms_broker.console.rendering import BASE

__all__ = ["log_in", "log_out", "login_form"]

_NEXT: Final = re.compile(re.escape(BASE) + r"/[a-z-]{0,30}", re.ASCII)
"""The pages to which a login may redirect: only the console's."""


async def login_form(console: Console, request: Request) -> Response:
    """Show the form for user name and password."""
    following = request.query_params.get("next", "")
    return console.page(request, "login.html", title="Log in", next=following, name="", error=None)


async def log_in(console: Console, request: Request) -> Response:
    """Check user name and password, and begin a session."""
    async with request.form(max_files=0, max_fields=10) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
    following = fields.get("next", "")
    name = fields.get("name", "")
    try:
        await console.web.log_in(request, name, fields.get("password", ""))
    except JMSException as error:
        return console.page(
            request,
            "login.html",
            status=401,
            title="Log in",
            next=following,
            name=name,
            error=error,
        )
    return RedirectResponse(following if _NEXT.fullmatch(following) else f"{BASE}/", 303)


async def log_out(console: Console, request: Request) -> Response:
    """End the session."""
    async with request.form(max_files=0, max_fields=10) as form:
        console.web.check_form(request, form.get("token"))
    console.web.log_out(request)
    return RedirectResponse(f"{BASE}/login", 303)
