"""The broker's web server: starlette and uvicorn (extra `web`), in the broker's event loop.

The server (`server`) knows no page of its own. Parts of the site are functions that return routes
(`parts`); what they know of the broker and of the user is `WebContext` (`context`). Every request
passes `gate` first: host, origin, login, right, limits. See docs/http.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.user import Access, WebUser

if TYPE_CHECKING:
    from pyjms_broker.web.context import WebContext as WebContext

__all__ = ["Access", "WebConfiguration", "WebContext", "WebUser"]


def __getattr__(name: str) -> object:
    if name == "WebContext":  # imports starlette, which a broker without a web server need not have
        from pyjms_broker.web.context import WebContext  # noqa: PLC0415

        return WebContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
