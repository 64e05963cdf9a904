"""The failures of a query: their kinds, by what to do about them, and restarts. Needs no Spark.

Spark ends a query at any error, with the Python traceback in its text. Such a text may contain
values of messages, so only texts of pyjms and the names of errors become part of a reason, which is
shown in the status. (spark-pipeline 3.6)

The delays before restarts grow according to the settings. They are reset after each finished batch,
and after a query that ran for some minutes (an idle query has no batches). A pipeline is given up
if a batch fails repeatedly, or if another attempt cannot succeed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyjms.errors import (
    ConfigurationException,
    ConnectionClosedException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
)
from pyjms.runtime.backoff import ExponentialBackOff
from pyjms.settings.spark import RestartSettings
from pyjms.spark.pipeline.events import Range

_LINE: Final = re.compile(r"^(?:\S*: )?(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)$", re.MULTILINE)
_PYJMS_ERROR: Final = re.compile(r"\bpyjms\.[\w.]+\.([A-Z]\w*): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_BROKER: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConnectionFailedException|ConnectionClosedException|"
    r"RequestTimeoutException|RangesRefused|ResourceAllocationException)\b"
)
"""The last one means a full broker: sending fails until messages are consumed."""
_LOST_WORKER: Final = re.compile(r"ExecutorLostFailure|Python worker exited unexpectedly")
_FINAL: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConfigurationException|JMSSecurityException)\b|"
    r"\bpyjms\.[\w.]+\.LeaseReplaced\b|"
    r"\bpyjms\.[\w.]+\.IllegalStateException: .*(?:failOnDataLoss|checkpoint|spool)"
)
_INVALID_MESSAGE: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\]\s+"
    r"(Pipeline [\w.-]+: message seq (?:-?\d+|null) \(.*?; dead_letter is `fail`)",
    re.DOTALL,
)
"""The error that `dead_letter: fail` causes in Spark (`schema.parsing`); the plan, which follows in
the text, contains only its pattern."""
_SPARK_ENDED: Final = re.compile(
    r"SparkContext was (?:stopped|shut down)|stopped SparkContext|SparkSession was stopped"
)
_SPARK_ENDED_TYPES: Final = frozenset(("Py4JNetworkError", "ConnectionRefusedError", "Py4JError"))
_FINAL_TYPES: Final = frozenset(("AnalysisException", "ParseException"))
_TAIL: Final = re.compile(r"=== Streaming Query ===|JVM stacktrace:|^\tat ", re.MULTILINE)
_CAUSE: Final = re.compile(r"^Caused by: .+$", re.MULTILINE)
_TRACE: Final = "Traceback (most recent call last)"
_REASON_LENGTH: Final = 300


class FailureKind(Enum):
    """The kinds of failures, by what to do about them."""

    BROKER = "broker"
    """The broker was lost or is full: retry as long as the back-off allows."""
    BATCH = "batch"
    """A problem of the batch: retry, and give up if the same batch fails repeatedly."""
    FINAL = "final"
    """Another attempt would fail the same way."""
    SPARK_ENDED = "spark ended"
    """Spark itself has ended."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that ended a query."""

    kind: FailureKind
    reason: str
    """One line without values of messages, for status and events."""
    detail: str
    """Spark's text for the log: with the Python traceback, without the plan."""


class OpenBatch(NamedTuple):
    """A batch that was started and not finished."""

    number: int
    ranges: Mapping[str, Range]


def classify_failure(error: BaseException, *, at_start: bool = False) -> Failure:
    """Classify an error that a query raised. Blocks, as its text may be in the JVM.

    `at_start`: the query has not run yet; errors of Python code at that time, for example of the
    pipeline's function, would be raised again by the next attempt.
    """
    try:
        detail = str(error)
    except Exception as second:  # the text is in the JVM, which may have ended
        detail = f"{type(error).__name__} (its text is unavailable: {type(second).__name__})"
    kind = _kind(error, detail)
    if at_start and kind is FailureKind.BATCH and type(error).__name__ != "Py4JJavaError":
        kind = FailureKind.FINAL
    reason = _reason(error, detail)
    if kind is FailureKind.SPARK_ENDED:
        reason = f"Spark has ended: {reason}"
    return Failure(kind, reason, _without_plan(detail))


def find_open_batch(checkpoint: Path) -> OpenBatch | None:
    """Return the batch that a checkpoint has started and not finished; None: there is none.

    Reads Spark's log files: `offsets/N` is written before batch N runs, `commits/N` when it is
    done. Unreadable files count as no batch.
    """
    started = _numbers(checkpoint / "offsets")
    if not started or max(started) in _numbers(checkpoint / "commits"):
        return None
    number = max(started)
    before = _offsets(checkpoint / "offsets" / str(number - 1)) if number - 1 in started else {}
    ranges = {}
    for queue, (epoch, stop) in _offsets(checkpoint / "offsets" / str(number)).items():
        known = before.get(queue)
        start = known[1] if known is not None and known[0] == epoch else None
        if start != stop:
            ranges[queue] = Range(start, stop)
    return OpenBatch(number, ranges)


def _kind(error: BaseException, detail: str) -> FailureKind:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    has_ended = (
        _SPARK_ENDED_TYPES & kinds and "Py4JJavaError" not in kinds
    )  # an exception from Java: the JVM is running
    if has_ended or _SPARK_ENDED.search(detail):
        return FailureKind.SPARK_ENDED
    if _is_final(error) or _FINAL.search(detail) or _INVALID_MESSAGE.search(detail):
        return FailureKind.FINAL
    if isinstance(error, JMSException) or _BROKER.search(detail) or _LOST_WORKER.search(detail):
        return FailureKind.BROKER
    # in a running query, Spark may wrap an error of a data source in one of these
    if _FINAL_TYPES & kinds and "PYTHON_DATA_SOURCE" not in detail:
        return FailureKind.FINAL
    return FailureKind.BATCH


def _without_plan(detail: str) -> str:
    """Return Spark's text without the plan and the JVM's stack trace, except for its causes."""
    text, *rest = _TAIL.split(detail, maxsplit=1)
    causes = [] if _TRACE in text else dict.fromkeys(_CAUSE.findall("".join(rest)))
    return "\n".join([text.rstrip(), *causes])


def _is_final(error: BaseException) -> bool:
    """Return whether it is a permanent error that was raised in this process."""
    return isinstance(
        error, ConfigurationException | IllegalStateException | JMSSecurityException
    ) and not isinstance(error, ConnectionClosedException)


def _reason(error: BaseException, detail: str) -> str:
    if isinstance(error, JMSException):
        return _short(detail)
    invalid = _INVALID_MESSAGE.search(detail)
    if invalid is not None:
        return _short(invalid[1])
    own = _PYJMS_ERROR.findall(detail)
    if own:
        return _short(own[-1][1])
    conditions = list(dict.fromkeys(_CONDITION.findall(detail)))
    raised = [name for name, _ in _LINE.findall(detail) if name.endswith(("Error", "Exception"))]
    named = [*conditions, *raised[-1:]] or [type(error).__name__]
    return _short(", ".join(dict.fromkeys(named)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _REASON_LENGTH else line[: _REASON_LENGTH - 3] + "..."


def _numbers(folder: Path) -> set[int]:
    try:
        return {int(file.name) for file in folder.iterdir() if file.name.isdigit()}
    except OSError:
        return set()


def _offsets(file: Path) -> dict[str, tuple[int, int]]:
    """Return the epoch and next number of each queue, from a file of Spark's offset log."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    found: dict[str, tuple[int, int]] = {}
    for line in lines:
        value = _json(line)
        if isinstance(value, dict) and {"queue", "epoch", "seq"} <= value.keys():
            found[value["queue"]] = (value["epoch"], value["seq"])
    return found


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


_HEALTHY_AFTER: Final = 300.0
"""Seconds after which a running query counts as healthy, with or without messages."""


class Restarts:
    """Counts the failures of one pipeline, and decides about restarts."""

    def __init__(self, settings: RestartSettings, checkpoint: Path) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._poison: tuple[int, int] = (-1, 0)  # the number of a batch, and how often it failed
        self._back_off = ExponentialBackOff(
            settings.initial_interval,
            settings.multiplier,
            max_interval=settings.max_interval,
            max_attempts=settings.max_attempts,
        )
        self._delays = self._back_off.start()
        self.in_a_row = 0
        """Restarts since a batch was finished, or a query was healthy."""

    def reset(self) -> None:
        """Start again with the shortest delay, since a batch was finished."""
        if self.in_a_row:
            self._delays = self._back_off.start()
            self.in_a_row = 0

    def query_ran_for(self, seconds: float) -> None:
        """Reset the delays if a query, which reached its broker, ran long enough."""
        if seconds >= _HEALTHY_AFTER:
            self.reset()

    def next_delay(self, failure: Failure) -> float | None:
        """Count a failure and return the seconds until the next attempt; None: give up."""
        is_batch = failure.kind is FailureKind.BATCH
        if self._is_poisoned() if is_batch else failure.kind is not FailureKind.BROKER:
            return None
        self.in_a_row += 1
        return self._delays.next_back_off()

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
