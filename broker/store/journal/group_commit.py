"""Group commit: one job at a time is on its way to the disk, the next one gathers meanwhile.

Who waits decides where a job runs. A lone sender is answered sooner when the loop itself
writes and syncs, many are when a thread does and the next batch fills meanwhile. So: a job with
one waiter, after one like it, runs on the loop, as long as that is quicker (see `choice`); so do
small ones that nobody wants synced; all others run in the thread. All that one chunk from a
socket has caused counts as one. (persistence K6, K24)
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from broker.store.api import StoreState
from broker.store.journal.batch import WriteJob
from broker.store.journal.choice import LoneSenderChoice
from broker.store.journal.segment_writer import SegmentWriter
from broker.store.journal.settings import JournalSettings
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, LoopHandle, spawn

__all__ = ["GroupCommit"]

logger = logging.getLogger(__name__)

_INLINE_BYTES: Final = 256 << 10
_NO_SPACE: Final = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


class GroupCommit:
    """Takes jobs to the disk, one after the other.

    `take()` gives the next job with all that waits; `done(job, error)` hears of its end, on the
    loop, before its waiters do, and says what they are told. `inline` forces where jobs run
    (None: adapts); for measuring.
    """

    def __init__(
        self,
        writer: SegmentWriter,
        settings: JournalSettings,
        take: Callable[[], WriteJob],
        done: Callable[[WriteJob, Exception | None], Exception | None],
        state_changed: Callable[[StoreState, Exception | None], None],
        inline: bool | None = None,
    ) -> None:
        self.job: WriteJob | None = None
        self._writer = writer
        self._settings = settings
        self._take = take
        self._done = done
        self._state_changed = state_changed
        self._inline = inline
        self._wanted = False
        self._turn_is_due = False
        self._last_senders = 1
        self._choice = LoneSenderChoice()
        self._measured: bool | None = None  # where the lone sender's job that is on its way runs
        self._begun = 0.0
        self._failures = 0
        self._closing = False
        self._retry: BackgroundTask | None = None
        self._loop = LoopHandle()
        self._chunk = self._loop.turn
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="pyjms journal", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Have all that waits written, at the end of this turn of the loop at the latest."""
        self._wanted = True
        if self.job is None and not self._turn_is_due:
            self._turn_is_due = True
            # a lone sender has its answer in the turn that brought its message
            if self._last_senders > 1 or not self._chunk.finish_with(self._turn):
                self._loop.call_next(self._turn)

    def hurry(self) -> None:
        """From now on do not wait for space on the disk: try once more, then fail."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()

    def stop(self) -> None:
        """End the thread when no job is on its way. Waits a moment for it."""
        self._jobs.put(None)
        self._thread.join()

    def _turn(self) -> None:
        self._turn_is_due = False
        if self._wanted and self.job is None:
            job = self._begin()
            if self._belongs_on_loop(job):
                self._end(job, self._run(job))
            else:
                self._jobs.put(job)

    def _begin(self) -> WriteJob:
        self._wanted = False
        self.job = job = self._take()
        return job

    def _belongs_on_loop(self, job: WriteJob) -> bool:
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
        self._begun = _clock.now()
        self._measured = self._choice.on_loop()
        return self._measured

    def _run(self, job: WriteJob) -> Exception | None:
        """Do a job, on the loop or in the thread; returns the error."""
        try:
            self._writer.run(job)
        except Exception as error:
            return error
        return None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            error = self._run(job)
            try:
                self._loop.call_soon(self._end, job, error)
            except RuntimeError:
                logger.warning("The loop of a journal ended before the journal was closed")
                return

    def _end(self, job: WriteJob, error: Exception | None) -> None:
        """Hear of a job's end, on the loop."""
        if error is not None and not self._closing and self._is_no_space(error):
            self._measured = None
            self._suspend(job, error)
            return
        self._retry = None
        if self._measured is not None:
            self._choice.took(self._measured, _clock.now() - self._begun)
            self._measured = None
        if error is None and self._failures:
            self._failures = 0
            logger.info("The journal can be written again")
            self._state_changed(StoreState.RUNNING, None)
        self.job = None
        failure = self._done(job, error)
        if error is None and self._wanted:
            if job.senders > 1:
                # the disk has work again before the senders have their answers
                following = self._begin()
                self._last_senders = following.senders or self._last_senders
                self._jobs.put(following)
            else:
                self.request()
        for waiter in job.waiters:
            waiter.complete(failure)

    def _is_no_space(self, error: Exception) -> bool:
        """Whether the disk is only full. (K24)"""
        return (
            self._settings.ignore_no_space_errors
            and isinstance(error, OSError)
            and (error.errno in _NO_SPACE or "space" in str(error).lower())
        )

    def _suspend(self, job: WriteJob, error: Exception) -> None:
        self._failures += 1
        if self._failures == 1:
            self._state_changed(StoreState.SUSPENDED, error)
        if self._failures & (self._failures - 1) == 0:  # the first, then each doubling
            logger.warning("The journal waits for space, try %d: %s", self._failures, error)
        self._retry = spawn(self._try_again, job, name="pyjms journal retry")

    async def _try_again(self, job: WriteJob) -> None:
        try:
            await _clock.sleep(self._settings.resume_check_sleep_period)
        finally:  # cancelled: at once
            self._jobs.put(job)
