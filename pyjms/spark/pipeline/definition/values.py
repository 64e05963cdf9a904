"""The valid values of a pipeline's fields, and the error messages for invalid ones.

Each function checks a single value; combinations are checked by `Pipeline`. Reads no settings
and needs no Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE

__all__ = [
    "CHOICES",
    "DEFAULT_DEAD_LETTER",
    "FAIL",
    "MESSAGES",
    "PARQUET",
    "VIEW_NAME",
    "destination_problems",
    "folder_name_problems",
    "option_problems",
    "read_trigger",
]

MESSAGES: Final = "messages"
"""The name of a single source: the view that SQL reads."""
PARQUET: Final = "parquet:"
"""The prefix of a sink that is a folder of Parquet files."""
FAIL: Final = "fail"
"""The value of `dead_letter` that stops a pipeline at its first invalid message."""
DEFAULT_DEAD_LETTER: Final = f"queue://{DEFAULT_DEAD_LETTER_QUEUE}"
"""The destination of invalid messages for pipelines that name none."""
CHOICES: Final = {
    "output_mode": ("append", "update", "complete"),
    "exactly_once": ("epoch", "ids", "off"),
}
"""The fields with a fixed set of values."""
VIEW_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The form of a source's name: it is a view in SQL and an argument in Python."""

_FOLDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip
_BATCHES_ONLY: Final = (
    "Spark reads Python sources in micro-batches only; write an interval such as 1s, or 0"
)
_USE_ONCE: Final = "use --once when the pipeline is run"
_UNSUPPORTED_TRIGGERS: Final = {
    "continuous": _BATCHES_ONLY,
    "realtime": _BATCHES_ONLY,
    "once": _USE_ONCE,
    "availablenow": _USE_ONCE,
}
_SET_BY_FIELD: Final = {
    "destination": "source",
    "path": "source",
    "partitions": "partitions",
    "maxmessagespertrigger": "max_messages_per_trigger",
    "exactlyonce": "exactly_once",
    "idcolumn": "id_column",
    "checkpointlocation": "checkpoint",
    "url": "broker",
    "user": "broker",
    "password": "broker",
    "queryname": "name",
    "spool": "checkpoint",
}
_SET_BY_RUNNER: Final = ("owner", "maponly", "queryid", "batchid")
_ASYNC_PROGRESS: Final = "asyncprogresstrackingenabled"


def read_trigger(value: object) -> float:
    """Return a trigger in seconds: a number of seconds, a timedelta, `500ms`, `2s`, `2 seconds`.

    Raises:
        ValueError: the value is negative or is not an interval.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"trigger {value:g} is negative; write a number of seconds, or 0")
        return float(value)
    text = str(value).strip().lower()
    match = _DURATION.fullmatch(text)
    if match and (match[2] in _UNITS or float(match[1]) == 0):
        return round(float(match[1]) * _UNITS.get(match[2], 1.0), 9)
    if match and not match[2]:
        raise ValueError(f"trigger {value!r} has no unit; write {match[1]}s or {match[1]}ms")
    advice = "write for example 2s, 500ms or 0"
    for word, sentence in _UNSUPPORTED_TRIGGERS.items():
        if text.startswith(word):
            advice = sentence
    raise ValueError(f"trigger {value!r} is not an interval between batches; {advice}")


def folder_name_problems(key: str, text: str | None) -> Iterator[str]:
    """Yield a problem if a name cannot be that of a folder."""
    if text is not None and not _FOLDER_NAME.fullmatch(text):
        yield (
            f"{key} {text!r} cannot be the name of a folder; use letters, digits, '.', '_' and "
            "'-', and start with a letter or digit"
        )


def destination_problems(key: str, text: str) -> Iterator[str]:
    """Yield the problems of a destination; one with `${...}` is checked after it is resolved."""
    if "${" in text:
        return
    kind, separator, name = text.partition("://")
    if not separator:
        kind, name = "queue", text
    if kind not in {"queue", "topic"} or not name.strip():
        yield f"{key} {text!r} is not a destination; write orders, queue://orders or topic://orders"
    elif key == "source" and any(sign in name for sign in ",*>?"):
        yield f"{key} {text!r} is not a single queue; give each queue its own name in a mapping"


def option_problems(options: Iterable[str]) -> Iterator[str]:
    """Yield problems of options that a pipeline sets itself or cannot run with."""
    for option in options:
        name = option.removeprefix("sink.").lower()
        if name == _ASYNC_PROGRESS:
            yield (
                f"option {option} lets Spark run ahead of its log, so messages would be removed "
                "before they are processed; remove it"
            )
        elif name in _SET_BY_FIELD:
            yield f"option {option} is set by {_SET_BY_FIELD[name]}; use that instead"
        elif name in _SET_BY_RUNNER:
            yield f"option {option} is set by the pipeline itself; remove it"
