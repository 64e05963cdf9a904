"""Whether and when a query that failed is started again.

Waits grow by the settings and are counted anew after each finished batch, and after a query that
ran well for some minutes: an idle one has no batches. A batch that fails by itself again and again,
and what another attempt cannot mend, are not tried again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tenacity import AsyncRetrying

from pyjms.listener.backoff import BackOffExecution, ExponentialBackOff, wait_back_off
from pyjms.listener.backoff import stop_after_back_off as stops_after
from pyjms.settings.spark import RestartSettings
from pyjms.spark.pipeline.execution.failures import Failure, FailureKind, find_open_batch
from pyjms.spark.pipeline.reporting.events import Range

__all__ = ["QueryFailedError", "Restarts"]


_WELL_AFTER: Final = 300.0
"""Seconds that a query has to run to have been well, whether or not it had messages."""


class QueryFailedError(Exception):
    """A query ended with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Restarts:
    """The failures of one pipeline, counted."""

    def __init__(self, settings: RestartSettings, checkpoint: Path) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._poison: tuple[int, int] = (-1, 0)  # a batch, and how often it failed
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
        """Attempts since a batch was finished, or a query ran well."""
        return self._outage.attempts

    def batch_finished(self) -> None:
        """End the row of failures."""
        self._outage.is_over()

    def query_ran_for(self, seconds: float) -> None:
        """End the row of failures if so long is well, for a query that got to its broker."""
        if seconds >= _WELL_AFTER:
            self._outage.is_over()

    def retrying(self, **more: Any) -> AsyncRetrying:
        """Return what tries as often, and waits as long, as the settings say; the last error is
        raised. `more` is tenacity's: what is worth it, how to sleep, whom to tell.
        """
        wait = wait_back_off(self._outage)
        return AsyncRetrying(wait=wait, stop=stops_after(wait), reraise=True, **more)

    def should_restart(self, failure: Failure) -> bool:
        """Count a failure; whether another attempt may do better."""
        if failure.kind is FailureKind.BATCH:
            return not self._is_poisoned()
        return failure.kind is FailureKind.BROKER

    def final_failure(self, failure: Failure) -> tuple[str, dict[str, Range]]:
        """Return why the pipeline failed for good, and the batch that cannot be done."""
        batch = find_open_batch(self._checkpoint)
        if failure.kind is not FailureKind.BATCH or batch is None:
            return failure.reason, {}
        what = "; ".join(f"{queue} {numbers}" for queue, numbers in batch.ranges.items())
        reason = (
            f"batch {batch.number} failed {self._poison[1]} times and is not skipped "
            f"(messages by their numbers: {what or 'none'}): {failure.reason}"
        )
        return reason, dict(batch.ranges)

    def _is_poisoned(self) -> bool:
        """Count a failure of the batch that is open; whether it was the last that it may have."""
        batch = find_open_batch(self._checkpoint)
        if batch is None:
            return False
        number, failures = self._poison
        self._poison = (batch.number, failures + 1 if number == batch.number else 1)
        return self._poison[1] >= self._settings.poison_after


class _Outage:
    """The back-off of a row of failures."""

    def __init__(self, back_off: ExponentialBackOff) -> None:
        self._back_off = back_off
        self._execution: BackOffExecution = back_off.start()
        self.attempts = 0

    def next_back_off(self) -> float | None:
        self.attempts += 1
        return self._execution.next_back_off()

    def is_over(self) -> None:
        if self.attempts:
            self._execution = self._back_off.start()
            self.attempts = 0
