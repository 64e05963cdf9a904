"""Home, warnings and search."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyjms.errors import JMSException
from pyjms_broker.console.chart import chart_of
from pyjms_broker.console.console import Console, page_of
from pyjms_broker.console.model.problems import problems
from pyjms_broker.console.model.search import Found, search
from pyjms_broker.console.model.segments import kept_segments
from pyjms_broker.console.pages.query import text
from pyjms_broker.management.views.counters import totals

__all__ = ["home", "search_page", "warnings_page"]

_SHOWN = (
    *("BrokerName", "BrokerId", "BrokerVersion", "Uptime", "Persistent", "DataDirectory"),
    *("CurrentConnectionsCount", "TotalConnectionsCount"),
    *("MemoryPercentUsage", "MemoryLimit", "StorePercentUsage", "StoreLimit"),
    *("TempPercentUsage", "TempLimit", "TransportConnectors"),
)


async def home(console: Console, request: Request) -> Response:
    """Show the broker: its id, version, uptime, limits and totals."""
    view = console.management.view(console.tree.names.broker())
    values = {name: view.get(name) for name in _SHOWN}
    total = totals(console.tree.host)  # once, as each such attribute of the view sums up all
    chart = chart_of(console.rates.observe("broker", total.enqueues, total.dequeues), 600, 120)
    found = problems(console.tree)
    return console.page(
        request,
        "home.html",
        title="Home",
        values=values,
        total=total,
        chart=chart,
        problems=found[:5],
    )


warnings_page = page_of(
    "warnings.html",
    "Warnings",
    problems=lambda console: problems(console.tree),
    segments=lambda console: kept_segments(console.tree),
)
"""The findings for the operator, with reasons."""


async def search_page(console: Console, request: Request) -> Response:
    """Search names of destinations and clients, and messages."""
    words, selector = text(request, "q").strip(), text(request, "selector").strip()
    found, error = Found(), None
    try:
        found = await search(console.tree, words, selector)
    except JMSException as failure:
        error = failure
    return console.page(
        request,
        "search.html",
        status=200 if error is None else 400,
        title="Search",
        q=words,
        selector=selector,
        found=found,
        error=error,
    )
