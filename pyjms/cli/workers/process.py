"""A worker process, controlled by its supervisor.

The process has its own session: Ctrl-C in a terminal reaches only the supervisor, which then asks
each worker to stop. Two pipes connect them. The worker writes its report to the first pipe when the
application has started; if it exits before, the pipe is closed. The second pipe is closed when the
supervisor exits, even if it was killed. The worker then stops as on SIGTERM, so that no process is
left behind.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import anyio
from anyio.abc import Process

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.cli.workers.arguments import (
    WORKER_OPTION,
    WORKER_VARIABLE,
    WorkerArguments,
    WorkerReport,
)

__all__ = ["WorkerProcess", "command_of_this_process"]

logger: Final = get_logger(__name__)

_GRACE = 10.0
"""Seconds after a worker's own stop timeout before it is killed."""
_LONGEST_REPORT = 4096


class WorkerProcess:
    """A process that runs the application. Create it with `start`, on the supervisor's loop."""

    def __init__(self, process: Process, number: int, report: int, lifeline: int) -> None:
        self.number = number
        self.pid: int = process.pid
        self.started_at: float = _clock.now()
        self.report: WorkerReport | None = None
        """The worker's report; None: it has not started yet."""
        self.is_stopping: bool = False
        """Whether it was asked to stop."""
        self._process = process
        self._report_from = report
        self._lifeline = lifeline

    @classmethod
    async def start(cls, command: list[str], number: int, total: int) -> WorkerProcess:
        """Start `command` as worker `number` of `total`.

        Raises:
            OSError: the operating system cannot start a process.
        """
        report, report_to = os.pipe()
        end_with, lifeline = os.pipe()
        arguments = WorkerArguments(number, total, report_to, end_with)
        try:
            process = await anyio.open_process(
                [*command, WORKER_OPTION, arguments.to_text()],
                stdin=None,
                stdout=None,
                stderr=None,
                env={**os.environ, WORKER_VARIABLE: str(number)},
                pass_fds=(report_to, end_with),
                start_new_session=True,
            )
        except BaseException:
            os.close(report)
            os.close(lifeline)
            raise
        finally:
            os.close(report_to)
            os.close(end_with)
        return cls(process, number, report, lifeline)

    @property
    def name(self) -> str:
        """The name of the worker in the log."""
        return f"Worker {self.number} (pid {self.pid})"

    @property
    def exit_code(self) -> int | None:
        """The exit code, or the negated signal number; None: the process is running."""
        return self._process.returncode

    def describe_end(self) -> str:
        """Return a description of how the process ended."""
        code = self.exit_code
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    async def wait_started(self) -> bool:
        """Wait until the application has started (True) or the process has ended (False)."""
        await anyio.wait_readable(self._report_from)
        data = os.read(self._report_from, _LONGEST_REPORT)
        if data:
            self.report = WorkerReport.from_bytes(data)
        return self.report is not None

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended."""
        if self.exit_code is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                logger.debug("%s has ended already", self.name)

    async def stop(self) -> None:
        """Ask the process to stop, and wait for its end; kill it if it takes too long.

        The limit is the stop timeout from its report plus a few seconds.
        """
        self.is_stopping = True
        self.send_signal(signal.SIGTERM)
        allowed = (self.report.stop_timeout if self.report else 0.0) + _GRACE
        with _clock.timeout(allowed):
            await self.wait()
        if self.exit_code is None:
            logger.error("%s did not stop within %g s and is killed", self.name, allowed)
            self.kill()
            with anyio.CancelScope(shield=True):
                await self.wait()

    def kill(self) -> None:
        """End the process at once, with SIGKILL."""
        self.is_stopping = True
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close both pipes. If the process is still running, it stops."""
        os.close(self._report_from)
        os.close(self._lifeline)


def command_of_this_process() -> list[str]:
    """Return the command that runs `pyjms` with the arguments of this process."""
    return [sys.executable, "-m", "pyjms", *sys.argv[1:]]
