"""Prometheus metrics of the connection pools of this process, read at each collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pyjms.connection.pool.statistics import PoolStats, pool_statistics

__all__ = ["PoolCollector"]

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
