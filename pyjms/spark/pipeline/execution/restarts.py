"""Restarts of a failed query, and the decision to give it up.

Delays grow according to the settings. They are reset after each finished batch, and after a query
that ran for some minutes (an idle query has no batches). A pipeline is given up if a batch fails
repeatedly, or if another attempt cannot succeed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tenacity import AsyncRetrying

from pyjms.listener.backoff import (
    BackOffExecution,
    ExponentialBackOff,
    stop_after_back_off,
    wait_back_off,
)
from pyjms.settings.spark import RestartSettings
from pyjms.spark.pipeline.execution.failures import Failure, FailureKind, find_open_batch
from pyjms.spark.pipeline.reporting.events import Range

__all__ = ["QueryFailedError", "Restarts"]


_HEALTHY_AFTER: Final = 300.0
"""Seconds after which a running query counts as healthy, with or without messages."""


class QueryFailedError(Exception):
    """A query ended with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Restarts:
    """Counts the failures of one pipeline, and decides about restarts."""

    def __init__(self, settings: RestartSettings, checkpoint: Path) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._poison: tuple[int, int] = (-1, 0)  # the number of a batch, and how often it failed
        self._outage = _Outage(
            ExponentialBackOff(
                settings.initial_interval,
                settings.multiplier,
                max_interval=settings.max_interval,
                max_attempts=settings.max_attempts,
            )
        )

    @property
    def in_a_row(self) -> int:
        """Restarts since a batch was finished, or a query was healthy."""
        return self._outage.attempts

    def batch_finished(self) -> None:
        """Reset the delays, since a batch was finished."""
        self._outage.reset()

    def query_ran_for(self, seconds: float) -> None:
        """Reset the delays if a query, which reached its broker, ran long enough."""
        if seconds >= _HEALTHY_AFTER:
            self._outage.reset()

    def retrying(self, **more: Any) -> AsyncRetrying:
        """Return a retry controller with the settings' delays, which raises the last error.

        `more`: further arguments of tenacity (`retry`, `sleep`, `before_sleep`).
        """
        wait = wait_back_off(self._outage)
        return AsyncRetrying(wait=wait, stop=stop_after_back_off(wait), reraise=True, **more)

    def should_restart(self, failure: Failure) -> bool:
        """Count a failure, and return whether another attempt may succeed."""
        if failure.kind is FailureKind.BATCH:
            return not self._is_poisoned()
        return failure.kind is FailureKind.BROKER

    def final_failure(self, failure: Failure) -> tuple[str, dict[str, Range]]:
        """Return why the pipeline is given up, and the ranges of the batch that fails."""
        batch = find_open_batch(self._checkpoint)
        if failure.kind is not FailureKind.BATCH or batch is None:
            return failure.reason, {}
        what = "; ".join(f"{queue} {numbers}" for queue, numbers in batch.ranges.items())
        reason = (
            f"batch {batch.number} failed {self._poison[1]} times and is not skipped "
            f"(message numbers: {what or 'none'}): {failure.reason}"
        )
        return reason, dict(batch.ranges)

    def _is_poisoned(self) -> bool:
        """Count a failure of the open batch, and return whether it has reached the limit."""
        batch = find_open_batch(self._checkpoint)
        if batch is None:
            return False
        number, failures = self._poison
        self._poison = (batch.number, failures + 1 if number == batch.number else 1)
        return self._poison[1] >= self._settings.poison_after


class _Outage:
    """The delays of successive failures."""

    def __init__(self, back_off: ExponentialBackOff) -> None:
        self._back_off = back_off
        self._execution: BackOffExecution = back_off.start()
        self.attempts = 0

    def next_back_off(self) -> float | None:
        self.attempts += 1
        return self._execution.next_back_off()

    def reset(self) -> None:
        if self.attempts:
            self._execution = self._back_off.start()
            self.attempts = 0
