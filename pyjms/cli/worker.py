"""The worker's side: it runs the application, reports its start, and ends with its supervisor."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication
    from pyjms.settings import PyjmsSettings


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


_HOOKS_AND_CONNECTIONS = 6.0
"""Seconds that shutdown hooks and connections may need after the handlers."""


def run_worker(
    application: JmsApplication, arguments: WorkerArguments, on_started: Callable[[], None]
) -> None:
    """Run `application` until SIGTERM or the end of the supervisor. The main thread only."""
    if arguments.total > 1:
        _refuse_embedded_broker(application.settings)
        import multiprocessing  # the name is %(processName)s in log formats of the application

        multiprocessing.current_process().name = f"worker {arguments.number}"
        application.observation.use_port_of_worker(arguments.number)
    threading.Thread(
        target=_end_with_supervisor, args=(arguments.end_with,), name="pyjms worker", daemon=True
    ).start()

    def report() -> None:
        report = WorkerReport(
            is_exclusive=_is_exclusive(application.settings),
            stop_timeout=application.stop_timeout + _HOOKS_AND_CONNECTIONS,
        )
        os.write(arguments.report_to, report.to_bytes())
        on_started()

    application.run(on_started=report)


def _refuse_embedded_broker(settings: PyjmsSettings) -> None:
    if _embeds_broker(settings):
        raise ConfigurationException(
            "Several workers need a broker outside of their processes: each would embed its own",
            hint="start a broker (`pyjms broker start`) and set activemq.broker_url to its "
            "address, such as tcp://localhost:61616; or use one worker",
        )


def _is_exclusive(settings: PyjmsSettings) -> bool:
    """Return whether only one process can run with these settings at a time."""
    client_ids = [settings.jms.client_id, *(own.client_id for own in settings.listeners.values())]
    return _embeds_broker(settings) or any(client_ids)


def _embeds_broker(settings: PyjmsSettings) -> bool:
    brokers = (settings.activemq, *settings.brokers.values())
    return any(broker.effective_broker_url().startswith("vm:") for broker in brokers)


def _end_with_supervisor(descriptor: int) -> None:
    """Wait until the supervisor's end of the pipe is closed; then stop as on SIGTERM."""
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
