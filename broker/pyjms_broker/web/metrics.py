"""Metrics in Prometheus' text format: `/metrics`. See docs/http.md for the names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.management.host import DOMAIN
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.health import reason_not_ready
from pyjms_broker.web.user import Access

_PATTERN: Final = f"{DOMAIN}:type=Broker,brokerName=*,destinationType=*,destinationName=*"


def destination_views(management: Management) -> list[View[Any]]:
    """Return the views of queues and topics by name, except for advisory and temporary ones."""
    found = [
        view
        for view in management.find(_PATTERN)
        if not view.name.keys["destinationType"].startswith("Temp")
        and not view.name.keys["destinationName"].startswith(ADVISORY_PREFIX)
    ]
    return sorted(found, key=lambda view: view.name.text)


_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAXIMUM: Final = 5000
"""The maximum number of destinations with metrics."""
_TURN: Final = 100


class Metric(NamedTuple):
    """A metric from an attribute of a view, divided by `scale`."""

    name: str
    type: str
    attribute: str
    help: str
    scale: int = 1


BROKER_METRICS: Final = (
    Metric("uptime_seconds", "gauge", "UptimeMillis", "Time since the start.", 1000),
    Metric("connections", "gauge", "CurrentConnectionsCount", "Connections of clients."),
    Metric("connections_total", "counter", "TotalConnectionsCount", "Connections so far."),
    Metric("enqueued_total", "counter", "TotalEnqueueCount", "Messages that were sent."),
    Metric("dequeued_total", "counter", "TotalDequeueCount", "Messages that were acknowledged."),
    Metric("messages", "gauge", "TotalMessageCount", "Messages in all destinations."),
    Metric("consumers", "gauge", "TotalConsumerCount", "Consumers."),
    Metric("producers", "gauge", "TotalProducerCount", "Producers."),
    Metric("memory_usage_ratio", "gauge", "MemoryPercentUsage", "Memory in use, of 1.", 100),
    Metric("memory_limit_bytes", "gauge", "MemoryLimit", "Memory for messages."),
    Metric("store_usage_ratio", "gauge", "StorePercentUsage", "Store in use, of 1.", 100),
    Metric("store_limit_bytes", "gauge", "StoreLimit", "Disk space of the store; 0: no limit."),
    Metric("temp_usage_ratio", "gauge", "TempPercentUsage", "Temporary store in use, of 1.", 100),
    Metric("temp_limit_bytes", "gauge", "TempLimit", "Disk space of the temporary store."),
    Metric(
        "job_scheduler_usage_ratio",
        "gauge",
        "JobSchedulerStorePercentUsage",
        "Store of scheduled messages in use, of 1.",
        100,
    ),
)
"""Metrics `pyjms_broker_...`."""
DESTINATION_METRICS: Final = (
    Metric("messages", "gauge", "QueueSize", "Messages in the queue, in flight or not."),
    Metric("in_flight", "gauge", "InFlightCount", "Messages that consumers have."),
    Metric("enqueued_total", "counter", "EnqueueCount", "Messages that were sent to it."),
    Metric("dequeued_total", "counter", "DequeueCount", "Messages that were acknowledged."),
    Metric("dispatched_total", "counter", "DispatchCount", "Messages that went to consumers."),
    Metric("expired_total", "counter", "ExpiredCount", "Messages that have expired."),
    Metric("consumers", "gauge", "ConsumerCount", "Consumers."),
    Metric("producers", "gauge", "ProducerCount", "Producers."),
    Metric("memory_bytes", "gauge", "MemoryUsageByteCount", "Memory of its messages."),
    Metric("blocked_sends_total", "counter", "BlockedSends", "Sends that waited for space."),
    Metric(
        "enqueue_time_max_seconds",
        "gauge",
        "MaxEnqueueTime",
        "Longest time from a message's arrival to its first dispatch.",
        1000,
    ),
)
"""Metrics `pyjms_destination_...`, with the labels destination and type."""


def routes(context: WebContext) -> list[BaseRoute]:
    """Return the route of the metrics."""
    context.allow("/metrics", Access.READER)

    async def metrics(_: Request) -> Response:
        """Return all metrics."""
        lines = list(_broker_lines(context))
        views = destination_views(context.management)
        shown = views[:_MAXIMUM]
        values: list[Sequence[str]] = []
        for number, view in enumerate(shown, 1):
            values.append([_value(view, each) for each in DESTINATION_METRICS])
            if number % _TURN == 0:
                await anyio.lowlevel.checkpoint()
        labels = [_labels(view) for view in shown]
        for index, metric in enumerate(DESTINATION_METRICS):
            name = f"pyjms_destination_{metric.name}"
            lines += _head(name, metric)
            lines += [
                f"{name}{each} {row[index]}" for each, row in zip(labels, values, strict=True)
            ]
        omitted = Metric("", "gauge", "", "Destinations without metrics of their own.")
        lines += _head("pyjms_destinations_omitted", omitted)
        lines.append(f"pyjms_destinations_omitted {len(views) - len(shown)}")
        return Response("\n".join(lines) + "\n", headers={"content-type": _CONTENT_TYPE})

    return [Route("/metrics", metrics)]


def _broker_lines(context: WebContext) -> Iterator[str]:
    tree = context.management.context
    broker = context.management.view(tree.names.broker())
    ready = Metric("ready", "gauge", "", "1 if clients should connect, as in /health/ready.")
    yield from _head("pyjms_broker_ready", ready)
    yield f"pyjms_broker_ready {int(reason_not_ready(context) is None)}"
    info = Metric("info", "gauge", "", "1, with name and version.")
    yield from _head("pyjms_broker_info", info)
    name, version = _escape(broker.get("BrokerName")), _escape(broker.get("BrokerVersion"))
    yield f'pyjms_broker_info{{broker="{name}",version="{version}"}} 1'
    for metric in BROKER_METRICS:
        yield from _head(f"pyjms_broker_{metric.name}", metric)
        yield f"pyjms_broker_{metric.name} {_value(broker, metric)}"


def _head(name: str, metric: Metric) -> tuple[str, str]:
    return f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.type}"


def _value(view: View[Any], metric: Metric) -> str:
    value = view.get(metric.attribute)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "NaN"
    return repr(value / metric.scale if metric.scale != 1 else value)


def _labels(view: View[Any]) -> str:
    kind = view.name.keys["destinationType"].lower()
    return f'{{destination="{_escape(view.get("Name"))}",type="{kind}"}}'


def _escape(value: object) -> str:
    text = str(value).encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
