"""The arguments that a supervisor passes to a worker, and the worker's report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

__all__ = ["WORKER_OPTION", "WORKER_VARIABLE", "WorkerArguments", "WorkerReport"]

WORKER_OPTION: Final = "--as-worker"
WORKER_VARIABLE: Final = "PYJMS_WORKER"
"""The number of the worker, from 1: for `${PYJMS_WORKER}` in the settings."""


@dataclass(frozen=True, slots=True)
class WorkerArguments:
    """The number of a worker, and its two pipes to the supervisor.

    `report_to` is the descriptor to which the worker writes its report when it has started.
    `end_with` is the descriptor of a pipe that is closed when the supervisor ends for any reason.
    """

    number: int
    total: int
    report_to: int
    end_with: int

    def to_text(self) -> str:
        """Return the value of the worker's option."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read the value of the option."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The report of a worker that has started.

    `is_exclusive`: it uses a resource that only one process can have (a client id, the data
    directory of an embedded broker), so that its successor can start only after its end.
    `stop_timeout`: the maximum number of seconds that it needs to stop.
    """

    is_exclusive: bool
    stop_timeout: float

    def to_bytes(self) -> bytes:
        """Return the report as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a report."""
        return cls(**json.loads(data))
