"""What the values of a pipeline may be, and the sentences that say so.

Knows fields by their names only; reads no settings and needs no Spark.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyjms.spark.pipeline.definition import Pipeline

__all__ = ["FAIL", "MESSAGES", "PARQUET", "pipeline_problems", "read_trigger"]

MESSAGES: Final = "messages"
"""The name of a single source: the view that SQL reads."""
PARQUET: Final = "parquet:"
"""How a sink begins that is a folder of Parquet files."""
FAIL: Final = "fail"
"""The `dead_letter` that stops a pipeline at its first bad message."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip
_NO_TRIGGERS: Final = {
    "continuous": "Spark reads Python sources in batches only; write how often, such as 1s, or 0",
    "realtime": "Spark reads Python sources in batches only; write how often, such as 1s, or 0",
    "once": "say --once where the pipeline is run",
    "availablenow": "say --once where the pipeline is run",
}
_CHOICES: Final = {
    "output_mode": ("append", "update", "complete"),
    "exactly_once": ("epoch", "ids", "off"),
}
_SET_BY_FIELDS: Final = {
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
_ASYNC: Final = "asyncprogresstrackingenabled"


def read_trigger(value: object) -> float:
    """Return the seconds that a trigger means: a number of them, `500ms`, `2s`, `2 seconds`.

    Raises:
        ValueError: it is negative, or no time.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"trigger {value:g} is negative; write seconds, or 0")
        return float(value)
    text = str(value).strip().lower()
    match = _TIME.fullmatch(text)
    if match and (match[2] in _UNITS or float(match[1]) == 0):
        return round(float(match[1]) * _UNITS.get(match[2], 1.0), 9)
    if match and not match[2]:
        raise ValueError(f"trigger {value!r} has no unit; write {match[1]}s or {match[1]}ms")
    advice = "write for instance 2s, 500ms or 0"
    for word, sentence in _NO_TRIGGERS.items():
        if text.startswith(word):
            advice = sentence
    raise ValueError(f"trigger {value!r} is no time between batches; {advice}")


def pipeline_problems(pipeline: Pipeline) -> list[str]:
    """Return what is wrong with a pipeline's own values, each with what to write instead."""
    return [
        *_names(pipeline),
        *_work(pipeline),
        *_ends(pipeline),
        *_numbers(pipeline),
        *_promises(pipeline),
        *_options(pipeline.options),
    ]


def _names(pipeline: Pipeline) -> Iterator[str]:
    for key in ("name", "checkpoint"):
        text = getattr(pipeline, key)
        if text is not None and not _NAME.fullmatch(text):
            yield (
                f"{key} {text!r} cannot be a folder's name; "
                "write letters, digits, '.', '_' and '-', and begin with a letter or digit"
            )


def _work(pipeline: Pipeline) -> Iterator[str]:
    if (pipeline.function is None) == (not (pipeline.sql or "").strip()):
        yield (
            "it has both a function and sql; remove one"
            if pipeline.function
            else (
                "it has neither a function nor sql; write sql, or put @jms_pipeline on a function"
            )
        )
    if pipeline.function is not None and not pipeline.is_single:
        try:
            inspect.signature(pipeline.function).bind(**dict.fromkeys(pipeline.sources))
        except TypeError as error:
            wanted = ", ".join(pipeline.sources)
            yield f"its function cannot be called with {wanted}: {error}; name arguments like them"


def _ends(pipeline: Pipeline) -> Iterator[str]:
    if not pipeline.sources or not all(pipeline.sources.values()):
        yield "source is missing; write a destination's name, or several as {name: destination}"
    for name, text in pipeline.sources.items():
        if not _VIEW.fullmatch(name):
            yield f"source name {name!r} cannot be a view; write letters, digits and '_'"
        if text:
            yield from _destination("source", text)
    for name in pipeline.schemas:
        if name not in pipeline.sources:
            near = get_close_matches(name, pipeline.sources, 1)
            hint = f"did you mean {near[0]}?" if near else "write one of the source's names"
            yield f"schema {name!r} is for no source; {hint}"
    if not pipeline.sink or pipeline.sink == PARQUET:
        yield "sink is missing; write a destination's name, or parquet:FOLDER"
    elif pipeline.folder is None:
        yield from _destination("sink", pipeline.sink)
    if pipeline.dead_letter is not None and not pipeline.schemas:
        yield "dead_letter does nothing without a schema, which any message fits; leave it out"
    if pipeline.dead_letter is not None and pipeline.dead_letter != FAIL:
        yield from _destination("dead_letter", pipeline.dead_letter)


def _destination(key: str, text: str) -> Iterator[str]:
    if "${" in text:
        return  # settings put a value there, which is checked then
    kind, mark, name = text.partition("://")
    if not mark:
        kind, name = "queue", text
    if kind not in {"queue", "topic"} or not name.strip():
        yield f"{key} {text!r} is no destination; write orders, queue://orders or topic://orders"
    elif key == "source" and any(sign in name for sign in ",*>?"):
        yield f"{key} {text!r} is not one queue; give each its own name in a mapping"


def _numbers(pipeline: Pipeline) -> Iterator[str]:
    for key in ("partitions", "max_messages_per_trigger"):
        number = getattr(pipeline, key)
        if number is not None and (not isinstance(number, int) or number < 1):
            yield f"{key} {number!r} is no number from 1 on"
    for key, known in _CHOICES.items():
        text = getattr(pipeline, key)
        if text not in known:
            yield f"{key} {text!r} is none of {', '.join(known)}"


def _promises(pipeline: Pipeline) -> Iterator[str]:
    level = pipeline.exactly_once
    if pipeline.id_column is not None and level != "ids":
        yield f"id_column does nothing with exactly_once {level}; write exactly_once: ids"
    if level == "ids" and pipeline.output_mode in {"update", "complete"}:
        yield (
            f"exactly_once ids with output_mode {pipeline.output_mode} would drop a row that "
            "changed, as its id was seen before; write exactly_once: epoch"
        )
    if pipeline.folder is not None and pipeline.output_mode == "complete":
        yield (
            "output_mode complete would write the whole result into the folder of every batch; "
            "write append or update, or send it to a destination"
        )
    if pipeline.folder is not None and level != "epoch":
        yield (
            f"exactly_once {level} is for destinations; a Parquet folder is written exactly once "
            "by its batches: leave it out"
        )


def _options(options: Mapping[str, Any]) -> Iterator[str]:
    for option in options:
        bare = option.removeprefix("sink.").lower()
        if bare == _ASYNC:
            yield (
                f"option {option} lets Spark run ahead of its log, and messages would be removed "
                "before they are done; leave it out"
            )
        elif bare in _SET_BY_FIELDS:
            yield f"option {option} is set by {_SET_BY_FIELDS[bare]}; write that instead"
        elif bare in _SET_BY_RUNNER:
            yield f"option {option} is set by the pipeline itself; leave it out"
