"""Whether pipelines do their work: UP, or DOWN with the reason. A listener like others.

DOWN is a pipeline that failed for good, and one whose backlog grows while it reads nothing. One
that is being restarted is UP: it has attempts left. (spark-pipeline 6.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.spark.pipeline.reporting.events import (
    BatchFinished,
    PipelineEvent,
    PipelineFailed,
    PipelinePulse,
    PipelineStarted,
)

__all__ = ["Health", "PipelineHealth"]

_STUCK_AFTER: Final = 3
"""Pulses in a row, ten seconds apart, with more and more waiting and nothing read."""


@dataclass(frozen=True, slots=True)
class Health:
    """UP, or DOWN and why."""

    is_up: bool
    reason: str = ""

    def __str__(self) -> str:
        return "UP" if self.is_up else f"DOWN ({self.reason})"


_UP: Final = Health(is_up=True)


class PipelineHealth:
    """The health of each pipeline, and of all."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Health] = {}
        self._backlogs: dict[str, list[int]] = {}

    def of(self, pipeline: str) -> Health:
        """Return the health of one pipeline; UP before anything is known of it."""
        return self._pipelines.get(pipeline, _UP)

    @property
    def all(self) -> Health:
        """UP if every pipeline is; else DOWN with the reasons."""
        down = [f"{name}: {h.reason}" for name, h in self._pipelines.items() if not h.is_up]
        return Health(is_up=False, reason="; ".join(down)) if down else _UP

    def on_event(self, event: PipelineEvent) -> None:
        """Take one event."""
        match event:
            case PipelineFailed():
                self._pipelines[event.pipeline] = Health(is_up=False, reason=event.reason)
            case PipelineStarted() | BatchFinished():
                self._recovered(event.pipeline)
            case PipelinePulse():
                self._look(event)

    def _recovered(self, name: str) -> None:
        self._pipelines[name] = _UP
        self._backlogs[name] = []

    def _look(self, pulse: PipelinePulse) -> None:
        seen = self._backlogs.setdefault(pulse.pipeline, [])
        if pulse.rows or pulse.backlog is None or (seen and pulse.backlog <= seen[-1]):
            self._recovered(pulse.pipeline)
            seen = self._backlogs[pulse.pipeline]
        if pulse.backlog is not None:
            seen.append(pulse.backlog)
        if len(seen) > _STUCK_AFTER:
            del seen[0]
            self._pipelines[pulse.pipeline] = Health(
                is_up=False,
                reason=f"{pulse.backlog} messages wait, more and more, and none is read",
            )
