"""Keeps a number of worker processes running: starts, restarts and stops them.

Theory of operation
-------------------

There is one *slot* for each worker, with one task that keeps it filled:

    start a process -> it reports that the application has started -> it exits -> start another

*Exits.* A worker that exits without having been asked to is replaced. If it did not run for long,
it is replaced after a back-off, so that a worker that keeps failing does not keep the machine busy.
While the supervisor itself starts, a worker that ends by an error before it has started will never
start (its module does not load, its settings are wrong), so everything stops, with exit code 1. One
that a signal ends is replaced: a message may have killed it while it started, or the system, for
lack of memory. With `--reload`, the supervisor waits for the next file change instead.

*Rolling restart* (SIGHUP): the process of one slot after the other is replaced. The new process is
started first, and the old one is asked to stop only when the new one has reported its start. So
there is always a consumer, and code that cannot start does not replace a working process. An
exclusive worker (it has a client id, or embeds the broker) must end before its successor can start.

A worker that has more memory than `--max-memory` is replaced in the same way, but not within a
minute after its start, so that a limit below what every worker needs does not keep all busy.

*Reload* is a rolling restart that stops first: two versions of the code never run at the same time.

If the system cannot start a process (no memory, or a deployment is replacing the program), the
supervisor retries after the same back-off, and the other workers keep running.

*Stop* (SIGTERM, SIGINT): all workers are asked to stop, each has its own stop timeout to finish the
messages in progress, and the supervisor exits when they have exited. A second signal kills them.

Other signals: SIGTTIN adds a worker, SIGTTOU removes one, SIGUSR1 and SIGUSR2 are forwarded (they
pause and resume the listeners). A worker that is still starting gets them after it has started,
because earlier they would kill it. A worker that starts while the others are paused is paused, too.
A worker stops when its supervisor has exited.

*Processes.* Each has its own session: Ctrl-C in a terminal reaches only the supervisor, which then
asks each worker to stop. Two pipes connect them. The worker writes its report to the first pipe
when the application has started; if it exits before, the pipe is closed. The second pipe is closed
when the supervisor exits, even if it was killed. The worker then stops as on SIGTERM, so that no
process is left behind.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

import anyio
from anyio.abc import Process

from pyjms.cli.worker import WORKER_OPTION, WORKER_VARIABLE, WorkerArguments, WorkerReport
from pyjms.errors import ConfigurationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import ExponentialBackOff
from pyjms.runtime.distribution import install_command
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import LINE_FORMAT, LogFormat, get_logger
from pyjms.runtime.machine import resident_memory

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
        """Start `command` as worker `number` of `total`."""
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

    @property
    def has_signal(self) -> bool:
        """Whether a signal has ended the process."""
        return self.exit_code is not None and self.exit_code < 0

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


_LONG_LIFE: Final = 60.0
"""Seconds of running after which a worker's exit resets the back-off, and its memory counts."""
_MEMORY_PERIOD: Final = 10.0
"""Seconds between two looks at the workers' memory."""
_BACK_OFF: Final = ExponentialBackOff(0.5, 2.0, max_interval=30.0)
_FORWARDED: Final = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_HANDLED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    *_FORWARDED,
)


class _Slot:
    """A worker's slot: its number, its process, and the task that replaces the process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: WorkerProcess | None = None
        self.task: BackgroundTask | None = None
        self.is_closed = False
        self.replacement: WorkerProcess | None = None
        """The process that a rolling restart has started, until it replaces `process`."""
        self.restart = anyio.Event()
        """Set: the process has ended, or could not be started, and must be replaced now."""
        self.settled = anyio.Event()
        """Set: the latest process has started, or has ended before it started."""
        self.back_off = _BACK_OFF.start()


class Supervisor:
    """Runs `command` in `total` processes until it is asked to stop. The main thread only.

    Args:
        command: runs the application; the option that makes it a worker is added.
        total: the number of workers, 1 or more.
        changes: watches files until it is cancelled, and awaits its argument after each change;
            None: files are not watched.
        max_memory: bytes of memory above which a worker is replaced; None: no limit.
    """

    def __init__(
        self,
        command: list[str],
        total: int,
        changes: Callable[[Callable[[str], Awaitable[None]]], Awaitable[None]] | None = None,
        max_memory: int | None = None,
    ) -> None:
        self._command = command
        self._total = total
        self._changes = changes
        self._max_memory = max_memory
        self._slots: list[_Slot] = []
        self._has_started = False
        self._failed = False
        self._is_paused = False
        self._stopping = anyio.Event()
        self._restarting = anyio.Lock()

    async def run(self) -> int:
        """Start the workers, keep them running, and return the exit code when all have ended."""
        with anyio.open_signal_receiver(*_HANDLED) as signals:
            watcher = spawn(self._handle_signals, signals, name="pyjms supervisor signals")
            for _ in range(self._total):
                self._open_slot()
            reloads = memory = None
            if self._changes is not None:
                reloads = spawn(
                    self._changes, self._reload, name="pyjms reload", on_error=self._fail
                )
            if self._max_memory is not None:
                memory = spawn(
                    self._watch_memory, self._max_memory, name="pyjms memory", on_error=self._fail
                )
            try:
                await self._stopping.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    await end_tasks(memory)
                    await self._end(reloads)
                    await end_tasks(watcher)
        return 1 if self._failed else 0

    async def _end(self, reloads: BackgroundTask | None) -> None:
        await end_tasks(reloads)
        async with anyio.create_task_group() as tasks:
            for slot in self._slots:
                tasks.start_soon(self._close_slot, slot)
        logger.info("All workers have ended")

    def _open_slot(self) -> None:
        slot = _Slot(len(self._slots) + 1)
        self._slots.append(slot)
        slot.task = spawn(
            self._keep_filled, slot, name=f"pyjms worker {slot.number}", on_error=self._fail
        )

    async def _close_slot(self, slot: _Slot) -> None:
        slot.is_closed = True
        slot.restart.set()
        slot.settled.set()
        for process in (slot.replacement, slot.process):
            if process is not None:
                await process.stop()
        await end_tasks(slot.task)

    def _fail(self, error: BaseException) -> None:
        logger.error("The supervisor cannot continue: %s", error, exc_info=error)
        self._failed = True
        self._stopping.set()

    async def _keep_filled(self, slot: _Slot) -> None:
        while not slot.is_closed:
            slot.restart = anyio.Event()
            process = await self._start(slot)
            if process is None:
                continue
            slot.process = process
            try:
                has_started = await self._watch_start(process)
                slot.settled.set()
                await process.wait()
            finally:
                if process.exit_code is None:  # this task was cancelled
                    process.kill()
                process.close()
            while slot.process is not process:  # a rolling restart has replaced it
                process = slot.process
                await process.wait()
                process.close()
            slot.process = None
            if not slot.is_closed:
                await self._wait_to_replace(slot, process, has_started=has_started)

    async def _start(self, slot: _Slot) -> WorkerProcess | None:
        """Start a process; None: the system could not start it, and the back-off is over."""
        try:
            return await WorkerProcess.start(self._command, slot.number, len(self._slots))
        except OSError as error:
            if not self._has_started:
                raise
            slot.settled.set()
            seconds = slot.back_off.next_back_off() or 0.0
            logger.error(
                "Worker %d: no process can be started, trying again in %g s: %s",
                slot.number,
                seconds,
                error,
            )
            with _clock.timeout(seconds):
                await slot.restart.wait()
            return None

    async def _watch_start(self, process: WorkerProcess) -> bool:
        if not await process.wait_started():
            return False
        logger.info("%s has started", process.name)
        self._pause_if_others_are(process)
        if all(slot.process is not None and slot.process.report for slot in self._slots):
            self._has_started = True
        return True

    async def _wait_to_replace(
        self, slot: _Slot, ended: WorkerProcess, *, has_started: bool
    ) -> None:
        """Handle the end of a worker; return when its successor is to be started."""
        if ended.is_stopping:  # a reload, or a rolling restart of an exclusive worker
            return
        if not has_started and self._changes is not None:
            logger.error("%s %s: waiting for a change", ended.name, ended.describe_end())
            await slot.restart.wait()
            return
        if not has_started and not self._has_started and not ended.has_signal:
            logger.error("%s %s and cannot start: stopping", ended.name, ended.describe_end())
            self._failed = True
            self._stopping.set()
            await slot.restart.wait()  # set when the slot is closed
            return
        if _clock.now() - ended.started_at > _LONG_LIFE:
            slot.back_off = _BACK_OFF.start()
        seconds = slot.back_off.next_back_off() or 0.0
        logger.error("%s %s: a new one starts in %g s", ended.name, ended.describe_end(), seconds)
        with _clock.timeout(seconds):
            await slot.restart.wait()

    async def _handle_signals(self, signals: AsyncIterable[signal.Signals]) -> None:
        actions: dict[signal.Signals, Callable[[], Awaitable[None]]] = {
            signal.SIGHUP: self.restart,
            signal.SIGTTIN: self._add_worker,
            signal.SIGTTOU: self._remove_worker,
        }
        async for number in signals:
            if number in {signal.SIGINT, signal.SIGTERM}:
                self._stop_or_kill(number)
            elif number in _FORWARDED:
                self._is_paused = number == signal.SIGUSR1
                for process in self._processes():
                    if process.report is not None:
                        process.send_signal(number)
            elif not self._stopping.is_set():
                spawn(actions[number], name=f"pyjms {number.name}")

    def _pause_if_others_are(self, process: WorkerProcess) -> None:
        if self._is_paused:
            process.send_signal(signal.SIGUSR1)

    def _stop_or_kill(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            logger.warning("%s again: killing the workers", number.name)
            for process in self._processes():
                process.kill()
            return
        logger.info("%s: stopping %d workers", number.name, len(self._processes()))
        self._stopping.set()

    def _processes(self) -> list[WorkerProcess]:
        return [slot.process for slot in self._slots if slot.process is not None]

    async def _add_worker(self) -> None:
        async with self._restarting:
            self._open_slot()
            logger.info("Workers: %d", len(self._slots))

    async def _remove_worker(self) -> None:
        async with self._restarting:
            if len(self._slots) == 1:
                logger.warning("The last worker is not removed: SIGTERM stops it")
                return
            slot = self._slots.pop()
            await self._close_slot(slot)
            logger.info("Workers: %d", len(self._slots))

    async def restart(self) -> None:
        """Replace the workers one after the other; one that cannot be replaced keeps running."""
        async with self._restarting:
            logger.info("Rolling restart of %d workers", len(self._slots))
            for slot in list(self._slots):
                if self._stopping.is_set() or not await self._replace(slot):
                    return
            logger.info("Rolling restart finished")

    async def _replace(self, slot: _Slot) -> bool:
        old = slot.process
        if old is None:  # it is waiting for its back-off
            slot.restart.set()
            return True
        if old.report is None or old.report.is_exclusive:
            slot.settled = anyio.Event()
            await old.stop()
            await slot.settled.wait()
            return True
        try:
            new = await WorkerProcess.start(self._command, slot.number, len(self._slots))
        except OSError as error:
            logger.error("No process can be started, %s keeps running: %s", old.name, error)
            return False
        slot.replacement = new
        try:
            if not await new.wait_started():
                await new.wait()
                new.close()
                if not new.is_stopping:
                    logger.error(
                        "%s %s and cannot start: %s keeps running, and so do the remaining workers",
                        new.name,
                        new.describe_end(),
                        old.name,
                    )
                return False
        finally:
            slot.replacement = None
        logger.info("%s replaces %s", new.name, old.name)
        self._pause_if_others_are(new)
        slot.process = new
        await old.stop()
        return True

    async def _watch_memory(self, limit: int) -> None:
        """Replace workers that have more memory than `limit`, one at a time."""
        while True:
            await _clock.sleep(_MEMORY_PERIOD)
            for slot in list(self._slots):
                process = slot.process
                if process is None or process.is_stopping or process.report is None:
                    continue
                used = resident_memory(process.pid) or 0
                if used <= limit or _clock.now() - process.started_at < _LONG_LIFE:
                    continue
                async with self._restarting:
                    if slot.process is process:
                        logger.info(
                            "%s has %d MB of memory, more than %d MB: it is replaced",
                            process.name,
                            used >> 20,
                            limit >> 20,
                        )
                        await self._replace(slot)

    async def _reload(self, what: str) -> None:
        async with self._restarting:
            logger.info("%s: restarting", what)
            async with anyio.create_task_group() as tasks:
                for slot in self._slots:
                    if slot.process is not None:
                        tasks.start_soon(slot.process.stop)
                    slot.restart.set()


_SUFFIXES: Final = (".py", ".yaml", ".yml", ".toml", ".json")
_IGNORED: Final = frozenset(
    {".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__",
     "node_modules", "site-packages", "venv"}
)  # fmt: skip


def _watched_folders(named: Sequence[Path] | None) -> list[Path]:
    """Return the folders to watch: those named, or else the current one."""
    if find_spec("watchfiles") is None:
        raise ConfigurationException(
            "--reload needs the package watchfiles", hint=install_command("reload")
        )
    folders = list(named or [Path.cwd()])
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        raise ConfigurationException(
            f"--reload-dir: there is no folder {', '.join(missing)}", hint="name existing folders"
        )
    return folders


async def _wait_for_changes(
    folders: Sequence[Path], on_change: Callable[[str], Awaitable[None]]
) -> None:
    """Await `on_change(text)` after each change of code or settings files below `folders`.

    Changes within a short time (an editor saves several files) count as one. Runs until cancelled.
    """
    from watchfiles import awatch

    def is_watched(_: object, path: str) -> bool:
        return path.endswith(_SUFFIXES) and _IGNORED.isdisjoint(Path(path).parts)

    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # its own messages are less specific
    async for changes in awatch(*folders, watch_filter=is_watched):
        await on_change(_describe({path for _, path in changes}))


def _describe(paths: set[str]) -> str:
    names = sorted(os.path.relpath(path) for path in paths)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} changed"


def supervise(
    workers: int,
    folders: Sequence[Path] | None,
    *,
    reload: bool,
    log_format: LogFormat | None = None,
    max_memory: int | None = None,
) -> NoReturn:
    """Run this command line in `workers` processes until SIGINT or SIGTERM, and exit.

    `reload`: restart them when files below `folders` (None: the current folder) change.
    `log_format` is the option's: the supervisor reads no settings.
    `max_memory`: replace those with more bytes of memory; None: no limit.
    """
    if sys.platform == "win32":
        raise ConfigurationException(
            "--workers and --reload need a Unix system",
            hint="start `pyjms run` once for each process",
        )

    changes = None
    logging.basicConfig(format=LINE_FORMAT, level=logging.INFO)
    if log_format == "json":
        from pyjms.observability.logs import JsonFormatter

        logging.root.handlers[0].setFormatter(JsonFormatter())
    if reload:
        watched = _watched_folders(folders)
        changes = partial(_wait_for_changes, watched)
        logger.info("Watching %s", ", ".join(map(str, watched)))
    if max_memory is not None and resident_memory() is None:
        raise ConfigurationException("--max-memory: the memory of processes is known on Linux only")
    supervisor = Supervisor(command_of_this_process(), workers, changes, max_memory)
    sys.exit(anyio.run(supervisor.run))
