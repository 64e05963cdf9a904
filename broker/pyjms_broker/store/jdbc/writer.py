"""The writer: passes units to a thread that writes them to the database, one batch at a time.

Theory of operation
===================

The loop submits units (`operations.Unit`), which go to one thread in batches. While one batch is
being written, the next one accumulates: a busy store needs few commits. Everything runs on the
loop, except for `_Batch.perform`, which runs in the thread.

    IDLE       nothing queued
    QUEUED     a unit was submitted; the pump runs at the end of this loop turn, so that
               everything submitted in the turn is one batch
    IN FLIGHT  the thread executes a batch; later units wait
    SUSPENDED  the database is unavailable; the batch is retried until it succeeds
    FAILED     all queued units fail, and so do later ones

    event                         from          to
    submit                        IDLE          QUEUED
    pump                          QUEUED        IN FLIGHT
    batch committed               IN FLIGHT     QUEUED, or IDLE
    DatabaseUnavailableException  IN FLIGHT     SUSPENDED (`ignore_sql_exceptions`), else FAILED
    retry succeeds                SUSPENDED     as for a committed batch
    another broker took over      IN FLIGHT     FAILED

Invariants:

- A unit is executed completely or not at all; units are executed in the order of submission.
- A batch is one database transaction. If the database rejects it (as opposed to being
  unavailable), its units are tried one by one, so a bad unit fails alone.
- Each transaction advances a number in the state table from the value that this broker left there
  (`Database`). A batch whose commit got no response is therefore not executed twice, and a broker
  that lost its lock cannot overwrite its successor's work.
- Completions and `Unit.done` are called on the loop, after the commit.

Within a batch, adjacent additions, removals and acknowledgements become a few bulk statements
(`database.Batch`), and a message that is added and removed in one bulk never reaches its table.
(activemq-persistence J1 to J8, K24)
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final

import anyio.to_thread
from tenacity import AsyncRetrying, retry_if_exception_type, wait_fixed

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jdbc.database import Database, DatabaseUnavailableException
from pyjms_broker.store.jdbc.operations import UNSETTLING, Operation, Outcome, Unit
from pyjms_broker.store.jdbc.settings import JDBCSettings

logger = get_logger(__name__)

_MAX_UNITS: Final = 2000
_MAX_BYTES: Final = 8 * 1024 * 1024


class _Batch:
    """Units that are written in one transaction, or one by one if the database rejects that."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.results: list[Outcome | Exception] = []
        self.one_by_one = False
        self.error: Exception | None = None
        self.finished = Event()

    def perform(self, database: Database) -> None:
        """Write all units that are not written yet; if that fails, set `error`."""
        self.error = None
        try:
            if not self.one_by_one:
                self._write_all(database)
            while self.one_by_one and len(self.results) < len(self.units):
                self._write_one(database, self.units[len(self.results)])
        except Exception as error:
            self.error = error
        finally:
            self.finished.set()

    def _write_all(self, database: Database) -> None:
        try:
            self.results = [database.transact(self.units)]
        except JMSException:
            raise
        except Exception as error:
            self.one_by_one = len(self.units) > 1
            if not self.one_by_one:
                self.results = [error]

    def _write_one(self, database: Database, unit: Unit) -> None:
        try:
            self.results.append(database.transact([unit]))
        except JMSException:
            raise
        except Exception as error:
            self.results.append(error)


class Writer:
    """Queues units for the database.

    On the loop, `on_outcome` gets what only the database can determine, for each batch, and
    `on_state` each new state.
    """

    def __init__(
        self,
        database: Database,
        settings: JDBCSettings,
        on_outcome: Callable[[Outcome], None],
        on_state: Callable[[StoreState, Exception | None], None],
    ) -> None:
        self.state = StoreState.RUNNING
        self.error: Exception | None = None
        self._database = database
        self._settings = settings
        self._on_outcome = on_outcome
        self._on_state = on_state
        self._queue: deque[Unit] = deque()
        self._unsettled: Counter[str] = Counter()
        """Queued operations whose effect readers cannot know, by container."""
        self._bytes = 0
        self._in_flight: _Batch | None = None
        self._is_pump_scheduled = False
        self._idle = _clock.Waiters()
        self._retry: BackgroundTask | None = None
        self._is_stopping = False
        self._loop: LoopHandle | None = None
        self._inbox: SimpleQueue[_Batch | None] = SimpleQueue()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread; call it on the loop."""
        self._loop = LoopHandle()
        self._thread = Thread(
            target=self._work, args=(self._loop,), name="pyjms jdbc writer", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Write the queued units, retrying once if the database fails, and stop; idempotent."""
        self._is_stopping = True
        if self._thread is None:
            return
        if self._retry is not None:
            await end_tasks(self._retry)
            if (
                self._in_flight is not None and self._retry is not None
            ):  # else the retry has just ended
                await self._last_try(self._in_flight)
        await self.drain()
        self.fail(JMSException("The store is stopped"), quiet=True)
        self._inbox.put(None)
        # the thread is idle, so this does not block
        self._thread.join()
        self._thread = None

    def submit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Exception | None], None] = lambda _: None,
        size: int = 0,
    ) -> Completion:
        """Queue operations that are executed together, after all earlier ones.

        The completion is done when they are durable. Some operations change a container's tables
        in ways that its store's overlay does not reflect. While one is queued, readers of the
        container first write out the queue (`settle_container`).
        """
        unsettled = [op.container for op in operations if isinstance(op, UNSETTLING)]
        if not unsettled:
            return self._enqueue(Unit(operations, done, size))
        self._unsettled.update(unsettled)

        def on_done(error: Exception | None) -> None:
            self._unsettled.subtract(unsettled)
            self._unsettled = +self._unsettled
            done(error)

        return self._enqueue(Unit(operations, on_done, size))

    def _enqueue(self, unit: Unit) -> Completion:
        if self.error is not None:
            unit.finish(self.error)
            return unit.completion
        self._queue.append(unit)
        self._bytes += unit.size
        if self.state is StoreState.RUNNING and self._is_congested(1.0):
            self._change(StoreState.CONGESTED, None)
        if self._in_flight is None and not self._is_pump_scheduled and self._loop is not None:
            self._is_pump_scheduled = True
            self._loop.call_next(self._pump)  # units of this turn of the loop are one batch
        return unit.completion

    async def drain(self) -> None:
        """Wait until all units submitted so far are written or have failed."""
        await self._idle.wait_while(lambda: bool(self._queue) or self._in_flight is not None)

    def settle(self) -> None:
        """Write all queued units now, blocking the loop; for the rare reads that need it."""
        self.check()
        while True:
            self._pump()
            batch = self._in_flight
            if batch is None:
                return
            batch.finished.wait()
            if batch.error is not None:
                raise JMSException(
                    f"The database {self._database.name} has failed"
                ) from batch.error
            self._on_performed(batch)

    def settle_container(self, container: str) -> None:
        """Write all queued units now if the container's overlay cannot represent one of them."""
        if container in self._unsettled:
            self.settle()

    def check(self) -> None:
        """Raise if the tables cannot be read."""
        if self.state in {StoreState.SUSPENDED, StoreState.FAILED}:
            raise JMSException(
                f"The store in {self._database.name} is {self.state.value}"
            ) from self.error

    def fail(self, error: Exception, *, quiet: bool = False) -> None:
        """Fail all queued units, and all that are submitted from now on."""
        if self.error is not None:
            return
        self.error = error
        self._change(StoreState.FAILED, error, quiet=quiet)
        waiting = list(self._queue)
        self._queue.clear()
        self._bytes = 0
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
            batch, self._in_flight = self._in_flight, None
            if batch is not None:
                self._refuse(batch, error)
        for unit in waiting:
            unit.finish(error)
        self._notify_idle()

    def _work(self, loop: LoopHandle) -> None:
        while (batch := self._inbox.get()) is not None:
            batch.perform(self._database)
            try:
                loop.call_soon(self._on_performed, batch)
            except RuntimeError:  # the loop has ended, and its waiters with it
                return

    def _pump(self) -> None:
        self._is_pump_scheduled = False
        if self._in_flight is None and self._queue and self.state is not StoreState.SUSPENDED:
            self._in_flight = self._next_batch()
            self._inbox.put(self._in_flight)

    def _next_batch(self) -> _Batch:
        units: list[Unit] = []
        size = 0
        while self._queue and len(units) < _MAX_UNITS and size < _MAX_BYTES:
            units.append(self._queue.popleft())
            size += units[-1].size
        self._bytes -= size
        return _Batch(units)

    def _on_performed(self, batch: _Batch) -> None:
        if batch is not self._in_flight:
            return  # `settle` has handled it
        if isinstance(batch.error, DatabaseUnavailableException) and (
            self._settings.ignore_sql_exceptions
        ):
            self._suspend(batch)
            return
        self._in_flight = None
        if batch.error is not None:
            self._refuse(batch, batch.error)
            self.fail(batch.error)
            return
        self._finish(batch)
        if self.state is StoreState.CONGESTED and not self._is_congested(0.5):
            self._change(StoreState.RUNNING, None)
        self._pump()
        self._notify_idle()

    def _finish(self, batch: _Batch) -> None:
        """Complete the units that were written or rejected."""
        for result in batch.results:
            if isinstance(result, Outcome):
                self._on_outcome(result)
        if not batch.results:
            return
        results = batch.results if batch.one_by_one else batch.results * len(batch.units)
        for unit, result in zip(batch.units, results, strict=False):
            failed: JMSException | None = None
            if isinstance(result, Exception):
                failed = JMSException(f"The database {self._database.name} refused a write")
                failed.__cause__ = result
                logger.error("%s: %s", failed, result)
            unit.finish(failed)

    def _refuse(self, batch: _Batch, error: Exception) -> None:
        """Complete a failed batch; units that were already written stay written."""
        self._finish(batch)
        done = len(batch.results) if batch.one_by_one else 0
        for unit in batch.units[done:]:
            unit.finish(error)

    def _suspend(self, batch: _Batch) -> None:
        if self._retry is None:
            self._change(StoreState.SUSPENDED, batch.error)
            retry = self._last_try if self._is_stopping else self._resume
            self._retry = spawn(retry, batch, name="jdbc store resumes", on_error=self.fail_with)

    def fail_with(self, error: BaseException) -> None:
        """Fail because a background task of the store has failed."""
        self.fail(error if isinstance(error, Exception) else JMSException(str(error)))

    async def _resume(self, batch: _Batch) -> None:
        """Retry the batch until the database is available. (activemq-persistence K24)"""
        await _clock.sleep(self._settings.resume_check_sleep_period)
        async for attempt in AsyncRetrying(
            sleep=_clock.sleep,
            wait=wait_fixed(self._settings.resume_check_sleep_period),
            retry=retry_if_exception_type(DatabaseUnavailableException),
            reraise=True,
        ):
            with attempt:
                await self._try(batch)
        self._leave_suspension(batch)

    async def _try(self, batch: _Batch) -> None:
        await anyio.to_thread.run_sync(batch.perform, self._database)
        if isinstance(batch.error, DatabaseUnavailableException):
            raise batch.error

    async def _last_try(self, batch: _Batch) -> None:
        with contextlib.suppress(DatabaseUnavailableException):
            await self._try(batch)
        if isinstance(batch.error, DatabaseUnavailableException):
            self.fail(batch.error)
        else:
            self._leave_suspension(batch)

    def _leave_suspension(self, batch: _Batch) -> None:
        self._retry = None
        self._change(StoreState.RUNNING, None)
        self._on_performed(batch)

    def _is_congested(self, share: float) -> bool:
        s = self._settings
        return (
            len(self._queue) > share * s.max_async_jobs or self._bytes > share * s.max_waiting_bytes
        )

    def _change(self, state: StoreState, error: Exception | None, *, quiet: bool = False) -> None:
        self.state = state
        if not quiet:
            if state is StoreState.SUSPENDED:
                logger.warning("The store is suspended until its database is available: %s", error)
            self._report(state, error)

    def _report(self, state: StoreState, error: Exception | None) -> None:
        self._on_state(state, error)

    def _notify_idle(self) -> None:
        if not self._queue and self._in_flight is None:
            self._idle.wake()
