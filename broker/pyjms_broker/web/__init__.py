"""The broker's web server: starlette and uvicorn (extra `web`) on the broker's event loop.

The server (`server`) has no pages itself. Parts of the site are functions that return routes
(`parts`); they access the broker and the user through `WebContext` (`context`). Every request first
passes `gate`, which checks host, origin, login, access right and limits. See docs/http.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.user import Access, WebUser

if TYPE_CHECKING:
    from pyjms_broker.web.context import WebContext as WebContext

__all__ = ["Access", "WebConfiguration", "WebContext", "WebUser"]


def __getattr__(name: str) -> object:
    if name == "WebContext":  # imports starlette, which is optional without a web server
        from pyjms_broker.web.context import WebContext  # noqa: PLC0415

        return WebContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
