"""Group commit: one job at a time is written to disk while the next one fills.

Theory of operation
-------------------

A job consists of all records appended since the previous job and the completions that wait for
them. One sync serves all of them, so the more senders there are, the more records share a sync.
No timer delays a batch so that it fills: it fills during the running sync.

    idle                request()  -> turn scheduled
    turn scheduled      the turn   -> running, on the loop or in the thread
    running             request()  -> running, requested
    running             done       -> idle
    running, requested  done       -> running (the next job) or turn scheduled
    running             disk full  -> suspended: the same job is retried until there is space,
                                   or a file handle
    running             error      -> failed: the job's waiters and all later ones get the error

`job` is the running (or suspended) job, and None in the other states; `_turn_scheduled` and
`_requested` hold the rest of the state.

Where a job runs. A single sender gets its response sooner if the loop itself writes and syncs,
which saves two thread switches. With several senders the thread is better, because the next batch
fills meanwhile. A job with one sender that follows another such job therefore runs on the loop, as
long as measurements show that this is quicker (`InlineWritePolicy`). Small jobs that need no sync
also run on the loop; all others run in the thread. All records caused by one chunk of input from a
socket count as one sender. The job of a single sender even starts within the turn that read its
message, which saves an iteration of the event loop; with several senders, the job starts in the
next turn, when all of them have been read. (activemq-persistence K6, K24)

Completions are completed on the loop, in journal order. If several senders wait, the next job is
passed to the thread before they are completed, so that the disk is busy while the loop writes the
responses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, LoopHandle, spawn
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.batch import WriteJob
from pyjms_broker.store.journal.disk import NO_HANDLE_ERRORS, NO_SPACE_ERRORS
from pyjms_broker.store.journal.segment_writer import SegmentWriter
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["GroupCommit", "InlineWritePolicy"]

logger = get_logger(__name__)

_INLINE_BYTES: Final = 256 << 10


class GroupCommit:
    """Runs write jobs, one after the other. Use it on the loop, except for `stop`.

    `next_job()` returns everything that waits as a job. `job_done(job, error)` is called on the
    loop when a job has ended, before its waiters are completed, and returns the error with which
    they are completed. `inline` fixes where jobs run, for measurements (None: adaptive).
    """

    def __init__(
        self,
        writer: SegmentWriter,
        settings: JournalSettings,
        next_job: Callable[[], WriteJob],
        job_done: Callable[[WriteJob, Exception | None], Exception | None],
        state_changed: Callable[[StoreState, Exception | None], None],
        inline: bool | None = None,
    ) -> None:
        self.job: WriteJob | None = None
        """The running job."""
        self._writer = writer
        self._settings = settings
        self._next_job = next_job
        self._job_done = job_done
        self._state_changed = state_changed
        self._inline = inline
        self._requested = False
        self._turn_scheduled = False
        self._last_senders = 1
        self._policy = InlineWritePolicy()
        self._measured: bool | None = None  # a single sender's running job: True on the loop
        self._started = 0.0
        self._failures = 0
        self._fail_fast = False
        self._retry: BackgroundTask | None = None
        self._loop = LoopHandle()
        self._input_turn = self._loop.turn
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run_jobs, name="pyjms journal", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Request a write of everything that waits, at the end of this loop turn at the latest."""
        self._requested = True
        if self.job is None and not self._turn_scheduled:
            self._turn_scheduled = True
            # a single sender gets its response in the turn that read its message
            if self._last_senders > 1 or not self._input_turn.finish_with(self._start_turn):
                self._loop.call_next(self._start_turn)

    def fail_fast(self) -> None:
        """Stop waiting for disk space or file handles: from now on retry once, then fail."""
        self._fail_fast = True
        if self._retry is not None:
            self._retry.cancel()

    def stop(self) -> None:
        """End the thread; no job may be running. Blocks briefly."""
        self._jobs.put(None)
        self._thread.join()

    def _start_turn(self) -> None:
        self._turn_scheduled = False
        if self._requested and self.job is None:
            job = self._start_job()
            if self._runs_on_loop(job):
                self._finish(job, self._run(job))
            else:
                self._jobs.put(job)

    def _start_job(self) -> WriteJob:
        self._requested = False
        self.job = job = self._next_job()
        return job

    def _runs_on_loop(self, job: WriteJob) -> bool:
        senders, before = job.senders, self._last_senders
        if senders:
            self._last_senders = senders
        if self._inline is not None:
            return self._inline
        if job.size > _INLINE_BYTES or senders > 1:
            return False
        if not job.sync:
            return True
        if senders == 0 or before > 1:
            return False
        self._started = _clock.now()
        self._measured = self._policy.use_loop()
        return self._measured

    def _run(self, job: WriteJob) -> Exception | None:
        """Run a job, on the loop or in the thread, and return its error."""
        try:
            self._writer.run(job)
        except Exception as error:
            return error
        return None

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            error = self._run(job)
            try:
                self._loop.call_soon(self._finish, job, error)
            except RuntimeError:
                logger.warning("The event loop of a journal ended before the journal was closed")
                return

    def _finish(self, job: WriteJob, error: Exception | None) -> None:
        """Handle the end of a job. On the loop."""
        if error is not None and not self._fail_fast and self._is_transient(error):
            self._measured = None
            self._suspend(job, error)
            return
        self._retry = None
        if self._measured is not None:
            self._policy.record(self._measured, _clock.now() - self._started)
            self._measured = None
        if error is None and self._failures:
            self._failures = 0
            logger.info("The journal can be written again")
            self._state_changed(StoreState.RUNNING, None)
        self.job = None
        failure = self._job_done(job, error)
        if error is None and self._requested:
            if job.senders > 1:
                # start the next write before the senders get their responses
                following = self._start_job()
                self._last_senders = following.senders or self._last_senders
                self._jobs.put(following)
            else:
                self.request()
        for waiter in job.waiters:
            waiter.complete(failure)

    def _is_transient(self, error: Exception) -> bool:
        """Return whether the disk is merely full, or the process is out of file handles.

        (activemq-persistence K24)
        """
        if not isinstance(error, OSError):
            return False
        if error.errno in NO_HANDLE_ERRORS:
            return True
        return self._settings.ignore_no_space_errors and (
            error.errno in NO_SPACE_ERRORS or "space" in str(error).lower()
        )

    def _suspend(self, job: WriteJob, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            self._state_changed(StoreState.SUSPENDED, error)
        if self._failures & (self._failures - 1) == 0:  # log attempts 1, 2, 4, 8, ...
            logger.warning(
                "The journal waits for disk space or file handles, attempt %d: %s",
                self._failures,
                error,
            )
        self._retry = spawn(self._retry_later, job, name="pyjms journal retry")

    async def _retry_later(self, job: WriteJob) -> None:
        try:
            await _clock.sleep(self._settings.resume_check_sleep_period)
        finally:  # if `fail_fast` cancels the wait: at once
            self._jobs.put(job)


_QUICK: Final = 0.002  # seconds; longer writes never run on the loop
_LOOP_ADVANTAGE: Final = 1.25  # the loop also saves two of its iterations and thread switches
_EXPLORE_EVERY: Final = 64  # jobs


class InlineWritePolicy:
    """Decides where a single sender's records are written: on the loop or in the thread.

    The loop saves two thread switches, which is 1.4 times as fast on an idle machine. A busy
    machine may schedule the thread sooner, and a slow disk must not block the loop. Both are
    therefore measured: the quicker one is used, and the other one is tried now and then. The
    averages are in seconds; None: not tried yet.
    """

    def __init__(self) -> None:
        self.loop: float | None = None
        self.thread: float | None = None
        self._jobs = 0

    def use_loop(self) -> bool:
        """Return whether the next job runs on the loop."""
        self._jobs += 1
        return self._loop_is_better() != (self._jobs % _EXPLORE_EVERY == 0)

    def record(self, on_loop: bool, seconds: float) -> None:
        """Record the duration of a job, from its start to its end as seen by the loop."""
        average = self.loop if on_loop else self.thread
        # a value that is rarely measured needs a larger weight
        weight = 0.125 if on_loop == self._loop_is_better() else 0.5
        average = seconds if average is None else average + weight * (seconds - average)
        if on_loop:
            self.loop = average
        else:
            self.thread = average

    def _loop_is_better(self) -> bool:
        loop, thread = self.loop, self.thread
        return loop is None or (
            loop < _QUICK and (thread is None or loop <= _LOOP_ADVANTAGE * thread)
        )
