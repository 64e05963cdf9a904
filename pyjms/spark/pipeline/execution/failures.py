"""Why a query failed: what Spark raised, sorted by what to do about it. Needs no Spark.

Spark ends a query at any error, and has the Python traceback in its text. Texts may hold values of
messages, so only what is ours, and the names of errors, become a reason. (spark-pipeline 3.6)
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
from pyjms.spark.pipeline.reporting.events import Range

__all__ = ["Failure", "FailureKind", "OpenBatch", "classify_failure", "find_open_batch"]

_LINE: Final = re.compile(r"^(?:\S*: )?(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)$", re.MULTILINE)
_OURS: Final = re.compile(r"\bpyjms\.[\w.]+\.([A-Z]\w*): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]")
_BROKER: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConnectionFailedException|ConnectionClosedException|"
    r"RequestTimeoutException|RangesRefused|ResourceAllocationException)\b"
)
"""The last of them is a broker that is full: senders fail there until somebody consumes."""
_LOST_WORKER: Final = re.compile(r"ExecutorLostFailure|Python worker exited unexpectedly")
_FINAL: Final = re.compile(
    r"\bpyjms\.[\w.]+\.(?:ConfigurationException|JMSSecurityException)\b|"
    r"\bpyjms\.[\w.]+\.LeaseReplaced\b|"
    r"\bpyjms\.[\w.]+\.IllegalStateException: .*(?:failOnDataLoss|checkpoint|spool)"
)
_BAD_MESSAGE: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\]\s+"
    r"(Pipeline [\w.-]+: message seq (?:-?\d+|null) \(.*?; dead_letter is `fail`)",
    re.DOTALL,
)
"""What `dead_letter: fail` makes Spark raise (`schema.parsing`); the plan, which follows in the
text, contains only its pattern."""
_GONE: Final = re.compile(
    r"SparkContext was (?:stopped|shut down)|stopped SparkContext|SparkSession was stopped"
)
_GONE_TYPES: Final = frozenset(("Py4JNetworkError", "ConnectionRefusedError", "Py4JError"))
_FINAL_TYPES: Final = frozenset(("AnalysisException", "ParseException"))
_TAIL: Final = re.compile(r"=== Streaming Query ===|JVM stacktrace:|^\tat ", re.MULTILINE)
_CAUSE: Final = re.compile(r"^Caused by: .+$", re.MULTILINE)
_TRACE: Final = "Traceback (most recent call last)"
_REASON_LENGTH: Final = 300


class FailureKind(Enum):
    """What to do about a failure."""

    BROKER = "broker"
    """The broker was lost, or is full: try again for as long as the back-off says."""
    BATCH = "batch"
    """Something in the batch: try again, and give up when the same batch fails again and again."""
    FINAL = "final"
    """Another attempt would fail the same way."""
    GONE = "gone"
    """Spark itself has ended."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a query."""

    kind: FailureKind
    reason: str
    """A line without anybody's values, for status and events."""
    detail: str
    """What Spark said, for the log: with the Python traceback, without the plan."""


class OpenBatch(NamedTuple):
    """A batch that was begun and not finished."""

    number: int
    ranges: Mapping[str, Range]


def classify_failure(error: BaseException, *, at_start: bool = False) -> Failure:
    """Sort an error that a query raised. May ask the JVM for its text: blocks.

    `at_start`: it never ran; what Python raised there, the pipeline's function for instance, is
    raised again by the next attempt.
    """
    try:
        detail = str(error)
    except Exception as second:  # the text is in the JVM, which may have ended
        detail = f"{type(error).__name__}, without a text: {type(second).__name__}"
    kind = _kind(error, detail)
    if at_start and kind is FailureKind.BATCH and type(error).__name__ != "Py4JJavaError":
        kind = FailureKind.FINAL
    reason = _reason(error, detail)
    if kind is FailureKind.GONE:
        reason = f"Spark has ended: {reason}"
    return Failure(kind, reason, _without_plan(detail))


def find_open_batch(checkpoint: Path) -> OpenBatch | None:
    """Return the batch that a checkpoint has begun and not finished; None: there is none.

    Reads Spark's log files: `offsets/N` is written before batch N runs, `commits/N` when it is
    done. Anything unreadable counts as no batch.
    """
    begun = _numbers(checkpoint / "offsets")
    if not begun or max(begun) in _numbers(checkpoint / "commits"):
        return None
    number = max(begun)
    before = _offsets(checkpoint / "offsets" / str(number - 1)) if number - 1 in begun else {}
    ranges = {}
    for queue, (epoch, stop) in _offsets(checkpoint / "offsets" / str(number)).items():
        known = before.get(queue)
        start = known[1] if known is not None and known[0] == epoch else None
        if start != stop:
            ranges[queue] = Range(start, stop)
    return OpenBatch(number, ranges)


def _kind(error: BaseException, detail: str) -> FailureKind:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    is_gone = _GONE_TYPES & kinds and "Py4JJavaError" not in kinds  # Java's answer is no silence
    if is_gone or _GONE.search(detail):
        return FailureKind.GONE
    if _is_final(error) or _FINAL.search(detail) or _BAD_MESSAGE.search(detail):
        return FailureKind.FINAL
    if isinstance(error, JMSException) or _BROKER.search(detail) or _LOST_WORKER.search(detail):
        return FailureKind.BROKER
    # raised by a query that runs, it is Spark's own wrapping of something else
    if _FINAL_TYPES & kinds and "PYTHON_DATA_SOURCE" not in detail:
        return FailureKind.FINAL
    return FailureKind.BATCH


def _without_plan(detail: str) -> str:
    """Return what Spark said, without the plan and the JVM's trace, whose causes are kept."""
    said, *rest = _TAIL.split(detail, maxsplit=1)
    causes = [] if _TRACE in said else dict.fromkeys(_CAUSE.findall("".join(rest)))
    return "\n".join([said.rstrip(), *causes])


def _is_final(error: BaseException) -> bool:
    """Whether it was raised here, before the query ran, and says that something is wrong."""
    return isinstance(
        error, ConfigurationException | IllegalStateException | JMSSecurityException
    ) and not isinstance(error, ConnectionClosedException)


def _reason(error: BaseException, detail: str) -> str:
    if isinstance(error, JMSException):
        return _short(detail)
    bad = _BAD_MESSAGE.search(detail)
    if bad is not None:
        return _short(bad[1])
    ours = _OURS.findall(detail)
    if ours:
        return _short(ours[-1][1])
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
    """Return epoch and next number by queue, of one file of Spark's offset log."""
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
