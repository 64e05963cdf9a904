"""Counters and rates as Server-Sent Events, once a second: `/api/events`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.management.model import View
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.metrics import destination_views
from pyjms_broker.web.user import Access

logger = get_logger(__name__)

_INTERVAL: Final = 1.0
"""Seconds between two events."""
_CLIENTS: Final = 50
_BACKLOG: Final = 5
"""The maximum number of events that wait for a client; slower clients are dropped."""
_SHOWN: Final = 200
"""The maximum number of destinations per event: highest rates first, then longest queues."""
_ATTRIBUTES: Final = {
    "size": "QueueSize",
    "in_flight": "InFlightCount",
    "consumers": "ConsumerCount",
    "producers": "ProducerCount",
    "enqueued": "EnqueueCount",
    "dequeued": "DequeueCount",
}
_BROKER: Final = {
    "connections": "CurrentConnectionsCount",
    "messages": "TotalMessageCount",
    "consumers": "TotalConsumerCount",
    "producers": "TotalProducerCount",
    "enqueued": "TotalEnqueueCount",
    "dequeued": "TotalDequeueCount",
    "memory_percent": "MemoryPercentUsage",
    "store_percent": "StorePercentUsage",
    "temp_percent": "TempPercentUsage",
}
_RATES: Final = ("enqueued", "dequeued")

_Row = dict[str, Any]


class _Sampler:
    """Reads the counters once a second while there are clients, and sends all the same event."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._clients: set[MemoryObjectSendStream[str]] = set()
        self._task: BackgroundTask | None = None
        self._former: dict[str, _Row] = {}
        self._former_time = 0.0

    def open(self) -> tuple[MemoryObjectSendStream[str], MemoryObjectReceiveStream[str]]:
        """Return the two ends of a new client's event stream.

        The stream ends when the client reads too slowly or the broker stops.

        Raises:
            WebError: there are too many clients.
        """
        if len(self._clients) >= _CLIENTS:
            raise WebError(503, f"There are {_CLIENTS} clients of events", "try again later")
        send, receive = anyio.create_memory_object_stream[str](_BACKLOG)
        self._clients.add(send)
        if self._task is None or self._task.done:
            self._task = spawn(self._run, name="web events")
        return send, receive

    def release(self, client: MemoryObjectSendStream[str]) -> None:
        """Stop sending events to a client. Idempotent."""
        self._clients.discard(client)
        client.close()

    async def _run(self) -> None:
        self._former, self._former_time = {}, 0.0
        stopping = self._context.stopping
        try:
            while self._clients and not stopping.is_set():
                text = await self._event()
                for client in tuple(self._clients):
                    self._give(client, text)
                with _clock.timeout(_INTERVAL):
                    await stopping.wait()
        finally:
            for client in tuple(self._clients):
                self.release(client)

    def _give(self, client: MemoryObjectSendStream[str], text: str) -> None:
        try:
            client.send_nowait(text)
        except (anyio.WouldBlock, anyio.BrokenResourceError):
            logger.info("A client of events reads too slowly, and is dropped")
            self.release(client)

    async def _event(self) -> str:
        management, now = self._context.management, _clock.now()
        elapsed = now - self._former_time if self._former_time else 0.0
        rows: dict[str, _Row] = {
            "": _row(management.view(management.context.names.broker()), _BROKER)
        }
        for number, view in enumerate(destination_views(management), 1):
            row = _row(view, _ATTRIBUTES)
            row["name"], row["type"] = view.get("Name"), view.name.keys["destinationType"].lower()
            rows[view.name.text] = row
            if number % 100 == 0:
                await anyio.lowlevel.checkpoint()
        counters = {key: {name: row[name] for name in _RATES} for key, row in rows.items()}
        for key, row in rows.items():
            former = self._former.get(key)
            for name in _RATES:
                known = former is not None and elapsed > 0
                grown = max(row[name] - former[name], 0) / elapsed if known and former else 0.0
                row[f"{name}_per_second"] = round(grown, 1)
        self._former, self._former_time = counters, now
        broker = rows.pop("")
        shown = sorted(rows.values(), key=_interest, reverse=True)[:_SHOWN]
        content = {
            "time": _clock.time_ms(),
            "broker": broker,
            "destinations": shown,
            "omitted": len(rows) - len(shown),
        }
        return f"event: counters\ndata: {json.dumps(content)}\n\n"

    async def close(self) -> None:
        """Stop sampling."""
        await end_tasks(self._task)


def _row(view: View[Any], attributes: dict[str, str]) -> _Row:
    return {name: view.get(attribute) for name, attribute in attributes.items()}


def _interest(row: _Row) -> tuple[float, int]:
    return row["enqueued_per_second"] + row["dequeued_per_second"], row["size"]


def routes(context: WebContext) -> list[BaseRoute]:
    """Return the route of the events."""
    context.allow("/api/events", Access.READER)
    sampler = _Sampler(context)
    context.on_stop(sampler.close)

    async def events(_: Request) -> Response:
        """Send an event every second until the client disconnects."""
        send, receive = sampler.open()  # here, so that a refusal gets an error status

        async def texts() -> AsyncIterator[str]:
            try:
                async for text in receive:
                    yield text
            finally:
                sampler.release(send)
                receive.close()

        return StreamingResponse(texts(), media_type="text/event-stream")

    return [Route("/api/events", events)]
