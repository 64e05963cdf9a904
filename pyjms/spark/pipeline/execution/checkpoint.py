"""Which pipeline a checkpoint is of: a file beside it that must match, part by part.

Spark would go on with a checkpoint of another plan until its state does not fit, and say so with a
stack trace; and a sink that changes in the middle of a batch gets half of it. Trigger, limits and
settings of Spark may change. (spark-pipeline 6.1)
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

__all__ = ["Checkpoint", "open_checkpoint"]

FORMAT: Final = 1
_SAME_SPARK: Final = "state"
"""The part that is compared under the same version of Spark only: it is text of Spark's."""


_OPTIONS: Final = ("selector", "clientId", "subscription")
"""What of a source's options says which messages it gets."""


class Checkpoint:
    """A pipeline's checkpoint: its id, and the check that it is this pipeline's."""

    def __init__(
        self, place: PipelineLocation, pipeline: Pipeline, saved: Mapping[str, Any]
    ) -> None:
        self._place = place
        self._pipeline = pipeline
        self._saved = saved
        self.id: str = saved.get("id") or uuid4().hex

    @property
    def owner(self) -> str:
        """The name that its sources' leases have."""
        return f"{self._pipeline.name}/{self.id}"

    def check(self, state: Sequence[str], spark: str) -> None:
        """Check the plan against the file, or write it for a checkpoint that was not used yet.

        Raises:
            ConfigurationException: it is the checkpoint of another pipeline, or of this one as it
                was; every part that differs is named.
        """
        parts = _parts(self._pipeline, state)
        if self._saved and _is_used(self._place):
            changed = self._changes(parts, spark)
            if changed:
                raise _refusal(self._pipeline, self._place, "; ".join(changed))
        written = {"format": FORMAT, "id": self.id, "spark": spark, "parts": parts}
        if written != self._saved:  # new, or of an older Spark or pyjms
            self._place.fingerprint.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._place.fingerprint, json.dumps(written, indent=2) + "\n")

    def _changes(self, parts: Mapping[str, Any], spark: str) -> list[str]:
        """Name the parts that differ; what an older version did not write is not known."""
        saved = self._saved["parts"]
        return [
            f"{name} was {_said(saved[name])} and is {_said(part)}"
            for name, part in parts.items()
            if name in saved
            and saved[name] != part
            and not (name == _SAME_SPARK and self._saved.get("spark") != spark)
        ]


def open_checkpoint(place: PipelineLocation, pipeline: Pipeline) -> Checkpoint:
    """Open a pipeline's checkpoint, or begin a new one; nothing is written yet.

    Raises:
        ConfigurationException: it is not one of a pipeline, or damaged.
    """
    path = place.fingerprint
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if _is_used(place):
            raise _refusal(
                pipeline, place, f"it was not made by a pipeline: no {path.name}"
            ) from None
        return Checkpoint(place, pipeline, {})
    try:
        saved = json.loads(text)
    except ValueError:
        saved = None
    if not isinstance(saved, dict) or not isinstance(saved.get("parts"), dict):
        raise _refusal(pipeline, place, f"{path.name} is damaged")
    if saved.get("format") != FORMAT:
        raise _refusal(
            pipeline, place, f"its format is {saved.get('format')}, and this version knows {FORMAT}"
        )
    return Checkpoint(place, pipeline, saved)


def _is_used(place: PipelineLocation) -> bool:
    """Whether a query got as far as to take messages."""
    return any(
        folder.is_dir() and any(folder.iterdir())
        for folder in (place.checkpoint / "offsets", place.folder / "spool")
    )


def _parts(pipeline: Pipeline, state: Sequence[str]) -> dict[str, Any]:
    """What a checkpoint depends on. Spark numbers its sources, so their order counts."""
    numbered = pipeline.exactly_once == "ids" and pipeline.id_column is None
    sources = {name: _target(text) for name, text in pipeline.sources.items()}
    return {
        "name": pipeline.name,
        "source": [f"{name} = {text}" for name, text in sources.items()],
        "sink": pipeline.sink if pipeline.folder is not None else _target(pipeline.sink),
        "output_mode": pipeline.output_mode,
        "exactly_once": pipeline.exactly_once,
        # another one's messages would be other rows under the same numbers
        **{name: _option(pipeline, name) for name in _OPTIONS},
        "id_column": pipeline.id_column,
        # rows are known by their numbers in a partition
        "partitions": pipeline.partitions if numbered else None,
        "sql": pipeline.sql if numbered else None,
        _SAME_SPARK: list(state),
    }


def _option(pipeline: Pipeline, name: str) -> str | None:
    given = {key.lower(): value for key, value in pipeline.options_of_source.items()}
    return given.get(name.lower()) or None


def _target(text: str) -> str:
    return parse_destination(text).qualified_name


def _said(part: Any) -> str:
    if part is None:
        return "nothing"
    return f"[{', '.join(map(str, part))}]" if isinstance(part, list) else str(part)


def _refusal(pipeline: Pipeline, place: PipelineLocation, reason: str) -> ConfigurationException:
    return ConfigurationException(
        f"Pipeline {pipeline.name}: its checkpoint {place.folder} does not fit: {reason}",
        hint="put that back; or give it a new `checkpoint`, with which it begins anew with what "
        "is on its queues then",
    )
