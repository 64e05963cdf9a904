"""The folder of a pipeline: its checkpoint, the file that identifies it, and its spools.

A file next to the checkpoint identifies the pipeline and must match: Spark would continue a
checkpoint with another plan until its state does not match, and then fail with a stack trace; and
if the sink changed in the middle of a batch, the new sink would get only part of the batch. So the
parts of a pipeline on which its checkpoint depends are compared, one by one. Trigger, limits and
settings of Spark may change. Needs no Spark. (spark-pipeline 6.1)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import parse_destination
from pyjms.runtime.paths import replace_durably
from pyjms.spark.events import Range, offsets_of
from pyjms.spark.pipeline import Pipeline

__all__ = ["PipelineLocation"]

_VARIABLE_OPTION: Final = "passwordEnv"
_NUMBERS: Final = re.compile(r"#\d+L?|-T\d+ms|plan_id=\d+")
_COMMON: Final = re.compile(r"_common_expr_\d+")


@dataclass(frozen=True, kw_only=True)
class PipelineLocation:
    """The broker of a pipeline and its folder, which all machines of a cluster have to reach.

    With `password_env`, the name of an environment variable, the password stays out of Spark's
    plans; the variable has to be set for driver and executors before Spark starts.
    """

    url: str
    folder: Path
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint: offsets, commits, state."""
        return self.folder / "checkpoint"

    @property
    def fingerprint(self) -> Path:
        """The file that identifies the pipeline of the checkpoint."""
        return self.folder / "pyjms-pipeline.json"

    def spool(self, source: str) -> Path:
        """Return the spool folder of a source, for a broker that does not serve ranges."""
        return self.folder / "spool" / source

    def options(self, pipeline: Pipeline) -> dict[str, str]:
        """Return the options for connecting; a pipeline may set its own passwordEnv."""
        own = pipeline.options_of_source.items()
        variable = next((v for k, v in own if k.lower() == _VARIABLE_OPTION.lower()), None)
        variable = variable or self.password_env
        given = {
            "url": self.url,
            "user": self.user,
            _VARIABLE_OPTION: variable,
            "password": self.password if variable is None else None,
        }
        return {key: text for key, text in given.items() if text is not None}

    def source_options(self, pipeline: Pipeline, source: str, owner: str) -> dict[str, str]:
        """Return the options of one source of a pipeline."""
        limit = pipeline.max_messages_per_trigger
        mode = _option(pipeline, "mode")
        return {
            **pipeline.options_of_source,
            **self.options(pipeline),
            "partitions": str(pipeline.partitions),
            **({} if mode == "spool" else {"owner": owner}),
            **({} if mode == "ranges" else {"spool": str(self.spool(source).absolute())}),
            **({} if limit is None else {"maxMessagesPerTrigger": str(limit)}),
        }


FORMAT: Final = 1
_SAME_SPARK: Final = "state"
"""The part that is compared only under the same version of Spark, as it is Spark's text."""


_OPTIONS: Final = ("selector", "clientId", "subscription")
"""The options of a source that determine which messages it gets."""


class Checkpoint:
    """The checkpoint of a pipeline: its id, and the comparison with the pipeline."""

    def __init__(
        self, location: PipelineLocation, pipeline: Pipeline, saved: Mapping[str, Any]
    ) -> None:
        self._location = location
        self._pipeline = pipeline
        self._saved = saved
        self.id: str = saved.get("id") or uuid4().hex

    @property
    def owner(self) -> str:
        """The owner of the leases of its sources."""
        return f"{self._pipeline.name}/{self.id}"

    def check(self, state: Sequence[str], spark: str) -> None:
        """Compare the pipeline with the file, or write the file for an unused checkpoint."""
        parts = checkpoint_parts(self._pipeline, state)
        if self._saved and _is_used(self._location):
            changed = self._changes(parts, spark)
            if changed:
                raise _mismatch(self._pipeline, self._location, "; ".join(changed))
        written = {"format": FORMAT, "id": self.id, "spark": spark, "parts": parts}
        if written != self._saved:  # new, or written by an older Spark or pyjms
            self._location.fingerprint.parent.mkdir(parents=True, exist_ok=True)
            replace_durably(self._location.fingerprint, json.dumps(written, indent=2) + "\n")

    def _changes(self, parts: Mapping[str, Any], spark: str) -> list[str]:
        """Return the parts that differ; parts that an older version did not write are skipped."""
        saved = dict(self._saved["parts"])
        if _SAME_SPARK in saved:  # an older version kept Spark's numbers
            saved[_SAME_SPARK] = sorted({comparable(each) for each in saved[_SAME_SPARK]})
        return [
            f"{name} was {_text(saved[name])} and is {_text(part)}"
            for name, part in parts.items()
            if name in saved
            and saved[name] != part
            and not (name == _SAME_SPARK and self._saved.get("spark") != spark)
        ]


def open_checkpoint(location: PipelineLocation, pipeline: Pipeline) -> Checkpoint:
    """Open the checkpoint of a pipeline, or start a new one; nothing is written yet."""
    path = location.fingerprint
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if _is_used(location):
            raise _mismatch(
                pipeline, location, f"it has no {path.name}, so no pipeline wrote it"
            ) from None
        return Checkpoint(location, pipeline, {})
    try:
        saved = json.loads(text)
    except ValueError:
        saved = None
    if not isinstance(saved, dict) or not isinstance(saved.get("parts"), dict):
        raise _mismatch(pipeline, location, f"{path.name} is damaged")
    if saved.get("format") != FORMAT:
        raise _mismatch(
            pipeline,
            location,
            f"its format is {saved.get('format')}, but this version of pyjms reads {FORMAT}",
        )
    return Checkpoint(location, pipeline, saved)


def _is_used(location: PipelineLocation) -> bool:
    """Return whether a query has read messages."""
    return any(
        folder.is_dir() and any(folder.iterdir())
        for folder in (location.checkpoint / "offsets", location.folder / "spool")
    )


def checkpoint_parts(pipeline: Pipeline, state: Sequence[str]) -> dict[str, Any]:
    """Return the parts on which a checkpoint depends. Spark numbers sources: order matters."""
    numbered = pipeline.exactly_once == "ids" and pipeline.id_column is None
    sources = {name: _target(text) for name, text in pipeline.sources.items()}
    return {
        "name": pipeline.name,
        "source": [f"{name} = {text}" for name, text in sources.items()],
        "sink": pipeline.sink if pipeline.format is not None else _target(pipeline.sink),
        "output_mode": pipeline.output_mode,
        "exactly_once": pipeline.exactly_once,
        # with another value, other rows would have the same numbers
        **{name: _option(pipeline, name) for name in _OPTIONS},
        "id_column": pipeline.id_column,
        # rows are identified by their numbers in a partition
        "partitions": pipeline.partitions if numbered else None,
        "sql": pipeline.sql if numbered else None,
        _SAME_SPARK: list(state),
    }


def _option(pipeline: Pipeline, name: str) -> str | None:
    given = {key.lower(): value for key, value in pipeline.options_of_source.items()}
    return given.get(name.lower()) or None


def _target(text: str) -> str:
    return parse_destination(text).qualified_name


def _text(part: Any) -> str:
    if part is None:
        return "nothing"
    return f"[{', '.join(map(str, part))}]" if isinstance(part, list) else str(part)


def _mismatch(
    pipeline: Pipeline, location: PipelineLocation, reason: str
) -> ConfigurationException:
    return ConfigurationException(
        f"Pipeline {pipeline.name}: its checkpoint {location.folder} does not fit: {reason}",
        hint="undo the change; or set a new `checkpoint`, to start again with the messages on its "
        "queues",
    )


def comparable(operator: str) -> str:
    """Return an operator of a plan without the numbers that differ from plan to plan.

    Spark counts common expressions through the life of a session: a query that is started again
    in the same process has other numbers than its first plan, which began with 0.
    """
    names = {
        name: f"_common_expr_{n}" for n, name in enumerate(dict.fromkeys(_COMMON.findall(operator)))
    }
    return _NUMBERS.sub("", _COMMON.sub(lambda match: names[match.group()], operator)).strip()


class OpenBatch(NamedTuple):
    """A batch that was started and not finished."""

    number: int
    ranges: Mapping[str, Range]


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
        found |= offsets_of(line)
    return found
