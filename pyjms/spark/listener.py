"""What Spark tells of queries, with the names and numbers of the format `jms`.

Spark calls a listener in one of its threads, in the order in which things happen. Its reports name
a Python source by a Java object; here the queues are named, with what was read and what waits.
(spark-pipeline 3.3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyjms.runtime.logging import get_logger
from pyjms.spark.events import BatchFinished, batch_event

__all__ = ["JmsQueryListener"]

logger: Final = get_logger(__name__)


def _ignore(_query: str) -> None:
    """Nobody asked."""


class JmsQueryListener(StreamingQueryListener):
    """Calls functions with what happens in the queries of a session: `spark.streams.addListener`.

    Spark waits for the functions, in one of its threads: they must be quick. What they raise is
    logged.

    Args:
        on_batch: called with each trigger that did something: rows and rows per second, seconds by
            phase, the ranges read by queue, how many messages wait and since when. `pipeline` is
            the query's name, or its id.
        on_idle: called with the id of a query that has found nothing to do, every ten seconds.
        on_end: called with the id of a query that has ended, after its last batch.

    """

    def __init__(
        self,
        on_batch: Callable[[BatchFinished], None],
        on_idle: Callable[[str], None] = _ignore,
        on_end: Callable[[str], None] = _ignore,
    ) -> None:
        self._on_batch = on_batch
        self._on_idle = on_idle
        self._on_end = on_end

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore it: whoever started the query knows."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a batch."""
        progress = event.progress
        name = progress.name or str(progress.id)
        self._report(name, lambda: self._on_batch(batch_event(name, progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Report that a query has nothing to do."""
        query = str(event.id)
        self._report(query, lambda: self._on_idle(query))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Report the end of a query."""
        query = str(event.id)
        self._report(query, lambda: self._on_end(query))

    def _report(self, query: str, report: Callable[[], None]) -> None:
        try:
            report()
        except Exception:  # Spark would ignore it
            logger.exception("A report of query %s failed", query)
