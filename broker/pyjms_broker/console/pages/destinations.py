"""Pages of queues, topics, and a single destination with its consumers and producers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pyjms_broker.console.chart import Chart, chart_of
from pyjms_broker.console.console import Console
from pyjms_broker.console.model.clients import consumers_of, producers_of
from pyjms_broker.console.model.destinations import (
    DestinationRow,
    destination_page,
    destination_view,
    find_destination,
    row_of,
)
from pyjms_broker.console.pages.query import flag, number, required, text

__all__ = ["queue", "queues", "topic", "topics"]

_PAGE_SIZE = 50
_DETAILS = (
    *("DispatchCount", "InFlightCount", "ExpiredCount", "MemoryUsageByteCount", "MemoryLimit"),
    *("StoreMessageSize", "AverageMessageSize", "MaxMessageSize", "AverageEnqueueTime"),
    *("MaxEnqueueTime", "BlockedSends", "TotalBlockedTime", "ProducerFlowControl"),
    *("PrioritizedMessages",),
)


def _chart(console: Console, row: DestinationRow, width: int, height: int) -> Chart:
    key = f"{row.kind}://{row.name}"
    return chart_of(console.rates.observe(key, row.enqueued, row.dequeued), width, height)


async def _table(console: Console, request: Request, kind: str) -> Response:
    sort, wanted = text(request, "sort") or "name", text(request, "filter").strip()
    everything, descending = flag(request, "everything"), flag(request, "descending")
    page = destination_page(
        console.tree,
        topics=kind == "topic",
        text=wanted,
        everything=everything,
        sort=sort,
        descending=descending,
        number=number(request, "page"),
        size=_PAGE_SIZE,
    )
    charts = [_chart(console, row, 120, 28) for row in page.items]
    return console.page(
        request,
        "destinations.html",
        title=f"{kind.title()}s",
        kind=kind,
        page=page,
        rows=list(zip(page.items, charts, strict=True)),
        text=wanted,
        everything=everything,
        sort=sort,
        descending=descending,
    )


async def queues(console: Console, request: Request) -> Response:
    """Show the queues with their actions."""
    return await _table(console, request, "queue")


async def topics(console: Console, request: Request) -> Response:
    """Show the topics with their actions."""
    return await _table(console, request, "topic")


async def _one(console: Console, request: Request, kind: str) -> Response:
    name = required(request, "name")
    view = destination_view(console.management, kind, name)
    found = find_destination(console.tree, kind, name)
    assert found is not None, "it has a view"
    row = row_of(found[1])
    return console.page(
        request,
        "destination.html",
        title=f"{kind.title()} {name}",
        row=row,
        chart=_chart(console, row, 600, 120),
        details={each: view.get(each) for each in _DETAILS},
        consumers=consumers_of(console.management, view.name),
        producers=producers_of(console.management, view.name),
    )


async def queue(console: Console, request: Request) -> Response:
    """Show a queue with its counters, consumers and producers."""
    return await _one(console, request, "queue")


async def topic(console: Console, request: Request) -> Response:
    """Show a topic with its counters, consumers and producers."""
    return await _one(console, request, "topic")
