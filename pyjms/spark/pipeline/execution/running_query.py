"""Asking a running query, which may end at any moment. All of it blocks.

Why a query ended is known from its end alone; that anything else about a dead one fails is no news.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from pyjms.spark.pipeline.execution.failures import Failure, classify_failure
from pyjms.spark.pipeline.reporting.progress import Progress

__all__ = [
    "Query",
    "ignoring_ended",
    "is_trigger_active",
    "last_progress",
    "recent_progress",
    "wait_for_end",
]

logger = logging.getLogger(__name__)


class Query(Protocol):
    """Part of pyspark's StreamingQuery. All of it blocks."""

    @property
    def id(self) -> Any: ...
    @property
    def recentProgress(self) -> Any: ...
    @property
    def status(self) -> dict[str, Any]: ...
    def awaitTermination(self) -> Any: ...
    def processAllAvailable(self) -> None: ...
    def stop(self) -> None: ...


def wait_for_end(query: Query) -> Failure | None:
    """Wait for the end of a query, and return why it failed; None: it was stopped, or is done."""
    try:
        query.awaitTermination()
    except Exception as error:
        return classify_failure(error)
    return None


def ignoring_ended(ask: Callable[[], object]) -> None:
    """Do something to a query, unless it has ended."""
    try:
        ask()
    except Exception as error:
        logger.debug("Asking a query that has ended: %s", type(error).__name__)


def is_trigger_active(query: Query) -> bool:
    """Whether it is between the beginning and the end of a trigger."""
    try:
        return bool(query.status["isTriggerActive"])
    except Exception as error:
        logger.debug("Asking a query that has ended: %s", type(error).__name__)
        return False


def last_progress(query: Query) -> Progress | None:
    """Return what it said last."""
    recent = recent_progress(query)
    return recent[-1] if recent else None


def recent_progress(query: Query) -> list[Progress]:
    """Return what it said of late, up to a hundred times."""
    try:
        return list(query.recentProgress)
    except Exception as error:
        logger.debug("Asking a query that has ended: %s", type(error).__name__)
        return []
