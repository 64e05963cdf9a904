"""Prometheus metrics of an application: sends, receives, handlers, settlements, listeners.

Labels have few values: ids of listeners, outcomes, and names of destinations (all temporary ones
share one value, and so do all beyond the first `MOST_DESTINATIONS`). Applications that use the same
registry share its metrics. docs/observability.md lists the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pyjms.connection.pool import PoolStats, pool_statistics
from pyjms.jms.destination import Destination
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.observability.health import Health
from pyjms.runtime import clock as _clock
from pyjms.template import interceptors
from pyjms.template import interceptors as handling
from pyjms.template.interceptors import Proceed

_GAUGE: Final = GaugeMetricFamily
_COUNTER: Final = CounterMetricFamily
_METRICS: Final = (
    (_GAUGE, "connections", "Open connections of the pool."),
    (_GAUGE, "borrowed_connections", "Handles on connections that are not closed."),
    (_GAUGE, "sessions", "Open sessions."),
    (_GAUGE, "active_sessions", "Sessions in use."),
    (_COUNTER, "created_connections", "Connections that were opened."),
    (_COUNTER, "expired_connections", "Connections closed because they were idle or too old."),
    (_COUNTER, "failed_connections", "Connections closed because they reported an exception."),
    (_COUNTER, "created_sessions", "Sessions that were opened."),
    (_COUNTER, "discarded_sessions", "Sessions closed because they could not be cleaned up."),
    (_COUNTER, "refused_sessions", "Requests for a session that failed because all were in use."),
)
_WAIT: Final = "Seconds that requests for a session waited because all were in use."


class PoolCollector(Collector):
    """The sums over the pools of each broker, with the names of PoolStats."""

    def describe(self) -> list[Metric]:
        """Return nothing: the metrics are known only at collection."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the metrics; none if there is no pool."""
        pools: dict[str, list[PoolStats]] = {}
        for stats in pool_statistics():
            pools.setdefault(stats.broker, []).append(stats)
        if not pools:
            return
        for kind, name, text in _METRICS:
            family = kind(f"pyjms_pool_{name}", text, labels=["broker"])
            for broker, members in pools.items():
                family.add_metric([broker], sum(getattr(s, name).count for s in members))
            yield family
        waits = SummaryMetricFamily("pyjms_pool_session_wait_seconds", _WAIT, labels=["broker"])
        for broker, members in pools.items():
            times = [stats.session_wait_time for stats in members]
            waits.add_metric(
                [broker], sum(t.count for t in times), sum(t.total_time for t in times)
            )
        yield waits


MOST_DESTINATIONS: Final = 500
"""The number of destinations with separate metrics in one registry; others are `(other)`."""

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class PrometheusMetrics:
    """The instrumentation of an application with prometheus_client.

    Args:
        registry: the registry of the metrics; None: the default registry of prometheus_client,
            which also has the application's own metrics and those of the process.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry: CollectorRegistry = REGISTRY if registry is None else registry
        self._metrics = _metrics_in(self.registry)
        self._listeners: _Listeners | None = None

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the text of all metrics, in a format that `accept` allows."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)

    def attach(self, health: Callable[[], Health]) -> None:
        """Register metrics for the state of the application and its listeners."""
        self.detach()
        self._listeners = _Listeners(health)
        self.registry.register(self._listeners)

    def detach(self) -> None:
        """Unregister these metrics when the application has stopped. Idempotent."""
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            self.registry.unregister(listeners)

    def handler(self, container: AbstractMessageListenerContainer) -> handling.HandlerInterceptor:
        """Return the interceptor of a listener's handler."""
        all_metrics = self._metrics
        listener = container.bean_name or container.destination_description
        duration = all_metrics.handler_duration.labels(listener)
        in_progress = all_metrics.handlers_in_progress.labels(listener)
        redelivered = all_metrics.redelivered.labels(listener)
        default = container.destination_description

        async def handle(invocation: handling.HandlerInvocation, proceed: Proceed) -> object:
            messages = invocation.messages or (invocation.message,)
            destination = invocation.destination
            name = default if destination is None else all_metrics.name_of(destination)
            outcome = "failed"
            again = sum(each.delivery_count > 1 for each in messages)
            if again:
                redelivered.inc(again)
            in_progress.inc()
            started = _clock.now()
            try:
                result = await proceed()
                outcome = "succeeded"
            finally:
                duration.observe(_clock.now() - started)
                in_progress.dec()
                all_metrics.handled.labels(listener, name, outcome).inc(len(messages))
            return result

        return handle

    def settlement(
        self, container: AbstractMessageListenerContainer
    ) -> handling.SettlementInterceptor:
        """Return the interceptor of a listener's commits, acknowledgements and rollbacks."""
        all_metrics = self._metrics
        listener = container.bean_name or container.destination_description

        all_metrics.settlements.labels(listener, "rollback", "succeeded")
        dead_letters = all_metrics.dead_letters.labels(listener)

        async def settle(invocation: handling.SettlementInvocation, proceed: Proceed) -> object:
            outcome = "failed"
            try:
                result = await proceed()
                outcome = "succeeded"
                dead_letters.inc(invocation.dead_letters)
            finally:
                all_metrics.settlements.labels(listener, invocation.operation, outcome).inc()
            return result

        return settle

    def send(self, connection_factory: object) -> interceptors.SendInterceptor:
        """Return the interceptor of sends."""
        all_metrics = self._metrics

        async def send(sending: interceptors.SendInvocation, proceed: Proceed) -> object:
            name = all_metrics.name_of(sending.destination)
            outcome = "failed"
            started = _clock.now()
            try:
                result = await proceed()
                outcome = "sent"
            finally:
                all_metrics.send_duration.labels(name).observe(_clock.now() - started)
                all_metrics.sent.labels(name, outcome).inc()
            return result

        return send

    def receive(self, connection_factory: object) -> interceptors.ReceiveInterceptor:
        """Return the interceptor of a template's receives."""
        all_metrics = self._metrics

        async def receive(receiving: interceptors.ReceiveInvocation, proceed: Proceed) -> object:
            result = await proceed()
            if receiving.message is not None:
                all_metrics.received.labels(all_metrics.name_of(receiving.destination)).inc()
            return result

        return receive


class _WithoutTimes(Collector):
    """The metrics of a registry without the `_created` series, which double their number."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def describe(self) -> Iterator[Metric]:
        """Return the metrics, so that their names are reserved."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        for metric in self._registry.collect():
            metric.samples = [each for each in metric.samples if not _is_time(each.name)]
            yield metric


def _is_time(name: str) -> bool:
    return name.endswith("_created")


class _Metrics:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(PoolCollector())
        own = CollectorRegistry()
        registry.register(_WithoutTimes(own))
        self._names: set[str] = set()
        registry = own
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.sent = counter("pyjms_messages_sent", "Messages sent.", ["destination", "outcome"])
        self.received = counter(
            "pyjms_messages_received", "Messages received by templates.", ["destination"]
        )
        self.handled = counter(
            "pyjms_messages_handled",
            "Messages whose handler has returned or raised.",
            ["listener", "destination", "outcome"],
        )
        self.redelivered = counter(
            "pyjms_messages_redelivered",
            "Messages that were redelivered to a handler.",
            ["listener"],
        )
        self.settlements = counter(
            "pyjms_settlements",
            "Commits, acknowledgements and rollbacks.",
            ["listener", "operation", "outcome"],
        )
        self.dead_letters = counter(
            "pyjms_dead_letters",
            "Messages that became dead letters because the listener failed or rejected them.",
            ["listener"],
        )
        self.handlers_in_progress = gauge(
            "pyjms_handlers_in_progress", "Handlers that are running.", ["listener"]
        )
        self.send_duration = _histogram("send", "Duration of sends.", "destination", registry)
        self.handler_duration = _histogram("handler", "Duration of handlers.", "listener", registry)

    def name_of(self, destination: Destination) -> str:
        """Return the value of the label `destination`."""
        if destination.is_temporary:
            return "(temporary)"
        name = destination.physical_name
        if name not in self._names:
            if len(self._names) >= MOST_DESTINATIONS:
                return "(other)"
            self._names.add(name)
        return name


def _histogram(name: str, text: str, label: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(
        f"pyjms_{name}_duration_seconds", text, [label], registry=registry, buckets=_BUCKETS
    )


_known: WeakKeyDictionary[CollectorRegistry, _Metrics] = WeakKeyDictionary()


def _metrics_in(registry: CollectorRegistry) -> _Metrics:
    if registry not in _known:
        _known[registry] = _Metrics(registry)
    return _known[registry]


class _Listeners(Collector):
    """Collects the state of an application and its listeners for each scrape."""

    def __init__(self, health: Callable[[], Health]) -> None:
        self._health = health

    def describe(self) -> list[Metric]:
        """Return nothing: the metrics are known only in `collect`."""
        return []

    def collect(self) -> Iterator[Any]:
        """Return the gauges."""
        health = self._health()
        ready = GaugeMetricFamily("pyjms_application_ready", "1 if the application is ready.")
        ready.add_metric([], float(health.ready))
        yield ready
        gauges = {
            name: GaugeMetricFamily(f"pyjms_listener_{name}", text, labels=["listener"])
            for name, text in (
                ("up", "1 if the listener has a consumer and makes progress, or is paused."),
                ("consumers", "Consumers of the listener."),
                ("busy", "Handlers of the listener that are running."),
                ("longest_handler_seconds", "How long the longest running handler has run."),
            )
        }
        counters = [
            CounterMetricFamily(name, text, labels=["listener"])
            for name, text in (
                (
                    "pyjms_handler_timeouts",
                    "Calls of handlers that took longer than the listener's timeout.",
                ),
                (
                    "pyjms_listener_event_loop_held",
                    "How often the listener's handler held the event loop for more than 0.5 s.",
                ),
            )
        ]
        for each in health.listeners:
            for counter, count in zip(counters, (each.timeouts, each.loop_holds), strict=True):
                counter.add_metric([each.id], count)
            values = (float(each.is_ready), each.consumers, each.busy, each.longest)
            for gauge, value in zip(gauges.values(), values, strict=True):
                gauge.add_metric([each.id], value)
        yield from gauges.values()
        yield from counters
