"""The fingerprint of a pipeline: a file next to its checkpoint that must match.

Spark would continue a checkpoint with another plan until its state does not match, and then fail
with a stack trace; and if the sink changed in the middle of a batch, the new sink would get only
part of the batch. So the parts of a pipeline on which its checkpoint depends are compared, one by
one. Trigger, limits and settings of Spark may change. (spark-pipeline 6.1)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import parse_destination
from pyjms.spark.files import write_atomically
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.location import PipelineLocation
from pyjms.spark.pipeline.execution.plans import comparable

__all__ = ["Checkpoint", "checkpoint_parts", "open_checkpoint"]

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
        """Compare the pipeline with the file, or write the file for an unused checkpoint.

        Raises:
            ConfigurationException: the checkpoint belongs to another pipeline, or to an earlier
                version of this one; every part that differs is listed.
        """
        parts = checkpoint_parts(self._pipeline, state)
        if self._saved and _is_used(self._location):
            changed = self._changes(parts, spark)
            if changed:
                raise _mismatch(self._pipeline, self._location, "; ".join(changed))
        written = {"format": FORMAT, "id": self.id, "spark": spark, "parts": parts}
        if written != self._saved:  # new, or written by an older Spark or pyjms
            self._location.fingerprint.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._location.fingerprint, json.dumps(written, indent=2) + "\n")

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
    """Open the checkpoint of a pipeline, or start a new one; nothing is written yet.

    Raises:
        ConfigurationException: it does not belong to a pipeline, or is damaged.
    """
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
        "sink": pipeline.sink if pipeline.folder is not None else _target(pipeline.sink),
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
