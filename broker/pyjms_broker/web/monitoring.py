"""What monitoring reads: health checks, metrics, and counters as a stream of events.

`/health/live` and `/health/ready` need no login. A broker whose memory or store is full stays
ready: senders wait, and the consumers that free space must still reach it. `/metrics` has
Prometheus' text format; docs/http.md has the names. `/api/events` sends the counters and rates as
Server-Sent Events, once a second.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms.runtime import clock as _clock
from pyjms.runtime import machine
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.management.host import DOMAIN
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.view_attributes import BROKER, DESTINATION, OLDEST, Metric, Table
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.user import Access

logger = get_logger(__name__)


def health_routes(context: WebContext) -> list[BaseRoute]:
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


_DESTINATIONS: Final = f"{DOMAIN}:type=Broker,brokerName=*,destinationType=*,destinationName=*"


async def _destination_views(management: Management) -> list[View[Any]]:
    """Return the views of queues and topics by name, except for advisory and temporary ones."""
    slices = Slices()
    found: dict[str, View[Any]] = {}
    for view in await management.find_in_slices(_DESTINATIONS):
        keys = view.name.keys
        is_temporary = keys["destinationType"].startswith("Temp")
        if not is_temporary and not keys["destinationName"].startswith(ADVISORY_PREFIX):
            found[view.name.text] = view
        await slices.after_item()
    return [found[name] for name in sorted(found)]


_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAXIMUM: Final = 5000
"""The maximum number of destinations with metrics."""
_READY: Final = Metric("pyjms_broker_ready", "1 if clients should connect, as in /health/ready.")
_FAILED_LOGINS: Final = Metric("pyjms_broker_failed_logins_total", "Logins that were refused.")
_BRIDGES: Final = Metric("pyjms_broker_bridges", "Bridges to other brokers that are open.")
_SLOW: Final = Metric("pyjms_broker_slow_consumers", "Consumers that cannot keep up.")
_BACKLOG_METRIC: Final = Metric(
    "pyjms_subscription_messages", "Messages of a durable subscription, in flight or not."
)
_SCALES: Final = {"ms": 1000, "%": 100}
"""By unit of an attribute: the number by which its metric, in seconds or of 1, is divided."""


def metrics_of(table: Table) -> dict[str, Metric]:
    """Return the metrics by attribute: `pyjms_broker_NAME`, `pyjms_destination_NAME`."""
    return {name: each.metric for name, each in table.items() if each.metric is not None}


def metrics_routes(context: WebContext) -> list[BaseRoute]:
    """Return the route of the metrics."""
    context.allow("/metrics", Access.READER)
    context.before_start.add("/metrics")

    async def metrics(_: Request) -> Response:
        """Return all metrics; of a slave, and before the start, only that it is not ready."""
        slices = Slices()
        lines = list(_sample(_READY, int(reason_not_ready(context) is None)))
        if not context.service.started:
            return Response("\n".join(lines) + "\n", headers={"content-type": _CONTENT_TYPE})
        for line in _broker_lines(context):
            lines.append(line)
            await slices.after_item()
        lines += await _subscription_lines(context, slices)
        usage = await anyio.to_thread.run_sync(process_usage, context.service.store_path)
        for metric, value in usage:
            lines += _sample(metric, value)
        views = await _destination_views(context.management)
        shown = views[:_MAXIMUM]
        wanted = metrics_of({**DESTINATION, **OLDEST})
        columns: list[list[str]] = [[] for _ in wanted]
        for view in shown:
            labels, known = _labels(view), view.kind.attributes  # topics have no oldest message
            for column, (attribute, metric) in zip(columns, wanted.items(), strict=True):
                if attribute in known:
                    text = _value(view, attribute)
                    column.append(f"pyjms_destination_{metric.name}{labels} {text}")
            await slices.after_item()
        for column, metric in zip(columns, wanted.values(), strict=True):
            lines += _head(f"pyjms_destination_{metric.name}", metric)
            if column:
                lines.append("\n".join(column))
            await slices.after_item()
        omitted = Metric("pyjms_destinations_omitted", "Destinations without metrics of their own.")
        lines += _sample(omitted, len(views) - len(shown))
        return Response("\n".join(lines) + "\n", headers={"content-type": _CONTENT_TYPE})

    return [Route("/metrics", metrics)]


def _broker_lines(context: WebContext) -> Iterator[str]:
    tree = context.management.context
    broker = context.management.view(tree.names.broker())
    info = Metric("pyjms_broker_info", "1, with name and version.")
    yield from _head(info.name, info)
    name, version = _escape(broker["BrokerName"]), _escape(broker["BrokerVersion"])
    yield f'{info.name}{{broker="{name}",version="{version}"}} 1'
    unwritable = Metric(
        "pyjms_broker_unwritable_total", "Messages that a consumer could not be sent."
    )
    yield from _sample(unwritable, context.service.region_broker.unwritable_count)
    yield from _sample(_FAILED_LOGINS, context.service.broker.failed_login_count)
    yield from _sample(_BRIDGES, len(context.service.networks.bridges))
    watchdog = context.service.watchdog
    if watchdog is not None:
        lag = Metric(
            "pyjms_broker_event_loop_lag_seconds",
            "The longest time of the last minute that work on the event loop had to wait.",
        )
        yield from _sample(lag, round(watchdog.longest_lag, 6))
        held = Metric(
            "pyjms_broker_event_loop_held_total",
            "How often one piece of work held the event loop for more than 0.5 s.",
        )
        yield from _sample(held, watchdog.held_count)
    for attribute, metric in metrics_of(BROKER).items():
        yield from _head(f"pyjms_broker_{metric.name}", metric)
        yield f"pyjms_broker_{metric.name} {_value(broker, attribute)}"


async def _subscription_lines(context: WebContext, slices: Slices) -> list[str]:
    """Return the number of slow consumers, and the backlogs of durable subscriptions."""
    slow = 0
    backlogs: list[str] = []
    for each in context.service.region_broker.subscriptions.all():
        slow += each.is_slow
        if isinstance(each, DurableTopicSubscription) and len(backlogs) < _MAXIMUM:
            client, name = each.key
            backlogs.append(
                f'{_BACKLOG_METRIC.name}{{client="{_escape(client)}",subscription="{_escape(name)}"'
                f',destination="{_escape(each.requested.physical_name)}"}}'
                f" {each.pending_count + each.in_flight}"
            )
        await slices.after_item()
    lines = list(_sample(_SLOW, slow))
    return [*lines, *_head(_BACKLOG_METRIC.name, _BACKLOG_METRIC), *backlogs]


def _sample(metric: Metric, value: float) -> Iterator[str]:
    yield from _head(metric.name, metric)
    yield f"{metric.name} {value!r}"


def _head(name: str, metric: Metric) -> tuple[str, str]:
    return f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.type}"


def _value(view: View[Any], attribute: str) -> str:
    value = view[attribute]
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "NaN"
    scale = _SCALES.get(view.kind.attributes[attribute].unit)
    return repr(value if scale is None else value / scale)


def _labels(view: View[Any]) -> str:
    kind = view.name.keys["destinationType"].lower()
    return f'{{destination="{_escape(view["Name"])}",type="{kind}"}}'


def _escape(value: object) -> str:
    text = str(value).encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_INTERVAL: Final = 1.0
"""Seconds between two events."""
_CLIENTS: Final = 50
_BACKLOG: Final = 5
"""The maximum number of events that wait for a client; slower clients are dropped."""
_SHOWN: Final = 200
"""The maximum number of destinations per event: highest rates first, then longest queues."""
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
            "": _row(management.view(management.context.names.broker()), BROKER)
        }
        slices = Slices()
        for view in await _destination_views(management):
            row = _row(view, DESTINATION)
            row["name"], row["type"] = view["Name"], view.name.keys["destinationType"].lower()
            rows[view.name.text] = row
            await slices.after_item()
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


def _row(view: View[Any], table: Table) -> _Row:
    return {each.event: view[name] for name, each in table.items() if each.event}


def _interest(row: _Row) -> tuple[float, int]:
    return row["enqueued_per_second"] + row["dequeued_per_second"], row["size"]


def events_routes(context: WebContext) -> list[BaseRoute]:
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


# --- What the process uses: CPU, memory, file handles, and the disk of the store. The names of the
# process are those of the Prometheus clients.

_CPU: Final = Metric("process_cpu_seconds_total", "CPU time of the process.")
_MEMORY: Final = Metric("process_resident_memory_bytes", "Memory of the process (RSS).")
_FILES: Final = Metric("process_open_fds", "Open file handles, connections among them.")
_MOST_FILES: Final = Metric("process_max_fds", "The limit of open file handles.")
_FREE: Final = Metric("pyjms_broker_store_disk_free_bytes", "Free space of the store's disk.")
_JOURNAL: Final = Metric("pyjms_broker_journal_files", "Files of the store's journal.")


def process_usage(store: Path | None) -> list[tuple[Metric, float]]:
    """Return the metrics with their values; blocking. `store` is the store's directory, if any."""
    return [*_of_process(), *_of_disk(store)]


def _of_process() -> Iterator[tuple[Metric, float]]:
    yield _CPU, time.process_time()
    for metric, value in (
        (_MOST_FILES, machine.most_files()),
        (_MEMORY, machine.resident_memory()),
        (_FILES, machine.open_files()),
    ):
        if value is not None:
            yield metric, value


def _of_disk(store: Path | None) -> Iterator[tuple[Metric, float]]:
    if store is not None and store.exists():
        yield _FREE, shutil.disk_usage(store).free
        yield _JOURNAL, sum(1 for _ in store.rglob("db-*.log"))
