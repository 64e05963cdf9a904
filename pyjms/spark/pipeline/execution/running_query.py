"""Access to a running query, which may end at any moment. All calls block.

Only `wait_for_end` returns the reason why a query ended; the failures of other calls because the
query has ended are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyjms._logger import get_logger
from pyjms.spark.pipeline.execution.failures import Failure, classify_failure

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "ignoring_ended",
    "is_trigger_active",
    "last_progress",
    "recent_progress",
    "wait_for_end",
]

logger: Final = get_logger(__name__)


def wait_for_end(query: StreamingQuery) -> Failure | None:
    """Wait for the end of a query and return its failure; None: it was stopped or has finished."""
    try:
        query.awaitTermination()
    except Exception as error:
        return classify_failure(error)
    return None


def ignoring_ended(call: Callable[[], object]) -> None:
    """Call a method of a query, and ignore its failure if the query has ended."""
    try:
        call()
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)


def is_trigger_active(query: StreamingQuery) -> bool:
    """Return whether a trigger is in progress."""
    try:
        return bool(query.status["isTriggerActive"])
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)
        return False


def last_progress(query: StreamingQuery) -> StreamingQueryProgress | None:
    """Return its last progress; None: it has none yet."""
    recent = recent_progress(query)
    return recent[-1] if recent else None


def recent_progress(query: StreamingQuery) -> list[StreamingQueryProgress]:
    """Return its recent progress, up to a hundred entries."""
    try:
        return list(query.recentProgress)
    except Exception as error:
        logger.debug("The query has ended: %s", type(error).__name__)
        return []
