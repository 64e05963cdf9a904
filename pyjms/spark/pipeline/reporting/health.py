"""The health of pipelines: UP, or DOWN with the reason. A listener of events.

A pipeline is DOWN if it failed for good, or if its backlog grows while it reads nothing. One that
is being restarted is UP, as it has attempts left. (spark-pipeline 6.2)
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
"""Number of successive pulses, ten seconds apart, with a growing backlog and nothing read."""


@dataclass(frozen=True, slots=True)
class Health:
    """UP, or DOWN with a reason."""

    is_up: bool
    reason: str = ""

    def __str__(self) -> str:
        return "UP" if self.is_up else f"DOWN ({self.reason})"


_UP: Final = Health(is_up=True)


class PipelineHealth:
    """The health of each pipeline, and of all pipelines together."""

    def __init__(self) -> None:
        self._pipelines: dict[str, Health] = {}
        self._backlogs: dict[str, list[int]] = {}

    def of(self, pipeline: str) -> Health:
        """Return the health of a pipeline; UP before its first event."""
        return self._pipelines.get(pipeline, _UP)

    @property
    def all(self) -> Health:
        """UP if all pipelines are; otherwise DOWN with the reasons."""
        down = [f"{name}: {h.reason}" for name, h in self._pipelines.items() if not h.is_up]
        return Health(is_up=False, reason="; ".join(down)) if down else _UP

    def on_event(self, event: PipelineEvent) -> None:
        """Process an event."""
        match event:
            case PipelineFailed():
                self._pipelines[event.pipeline] = Health(is_up=False, reason=event.reason)
            case PipelineStarted() | BatchFinished():
                self._recovered(event.pipeline)
            case PipelinePulse():
                self._check_backlog(event)

    def _recovered(self, name: str) -> None:
        self._pipelines[name] = _UP
        self._backlogs[name] = []

    def _check_backlog(self, pulse: PipelinePulse) -> None:
        backlogs = self._backlogs.setdefault(pulse.pipeline, [])
        if pulse.rows or pulse.backlog is None or (backlogs and pulse.backlog <= backlogs[-1]):
            self._recovered(pulse.pipeline)
            backlogs = self._backlogs[pulse.pipeline]
        if pulse.backlog is not None:
            backlogs.append(pulse.backlog)
        if len(backlogs) > _STUCK_AFTER:
            del backlogs[0]
            self._pipelines[pulse.pipeline] = Health(
                is_up=False,
                reason=f"{pulse.backlog} messages wait, their number grows, and none is read",
            )
