"""Synchronizations: callbacks around the end of a transaction. (spring-jms 4.1, 7.7)

A transaction manager that supports them keeps a `Synchronizations` for the task's transaction.
Participants register callbacks. A template keeps its session in it; the session is closed with the
transaction and, if it is transacted, committed right after it.

    commit:    before_commit, before_completion, the commit, after_commit, after_completion
    rollback:  before_completion, the rollback, after_completion

Messages that they send before the end belong to the transaction; messages that they send after it
do not.

Callbacks that a coroutine registers are called on the loop, where a coroutine also ends the
transaction. Callbacks that were registered in a thread may block and may be bound to that thread (a
database connection), so they are called in it: in the thread that waits for the coroutine in a
blocking call, or in the thread of the consumer whose `def` handler registered them.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import current_token

from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException, SynchedLocalTransactionFailedException
from pyjms.jms.api import ConnectionFactory
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.logging import get_logger
from pyjms.template import resources
from pyjms.template.resources import BoundResource, call, close_quietly
from pyjms.template.workers import Worker, current_worker

logger: Final = get_logger(__name__)


_R = TypeVar("_R")


class _Call:
    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.outcome: Future[Any] = Future()
        self.done = anyio.Event()
        self._function, self._args = function, args
        self._loop = LoopHandle()
        self._context = copy_context()

    def run(self) -> None:
        """Call the function in the thread; raise only interruptions."""
        try:
            self.outcome.set_result(self._context.run(self._function, *self._args))
        except Exception as error:
            self.outcome.set_exception(error)
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Wake the waiting task, with an error if there is no outcome."""
        if not self.outcome.done():
            self.outcome.set_exception(
                IllegalStateException("The thread of the transaction was interrupted")
            )
        self._loop.call_soon(self.done.set)


class WaitingThread:
    """The calling thread of one blocking call, which runs functions for its task meanwhile."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._outcome: Future[Any] | None = None
        self.is_serving = True
        """Whether the thread is still waiting."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run `function(*args)` in the thread, with the task's context variables."""
        call = _Call(function, args)
        with self._lock:
            if self.is_serving:
                self._calls.put(call)
            else:
                call.give_up()
        await call.done.wait()
        return call.outcome.result()

    def wait(self, outcome: Future[_R]) -> _R:
        """Run functions in this thread until there is an outcome; return or raise it."""
        self._outcome = outcome
        outcome.add_done_callback(lambda _: self._calls.put(None))
        self._serve()
        return outcome.result()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()

    def serve_cleanup(self) -> None:
        """Continue to run functions, if the wait was interrupted and the task is not done."""
        if self._outcome is not None and not self._outcome.done():
            self._serve()

    def leave(self) -> None:
        """Run no more functions; those that wait get an error."""
        with self._lock:
            self.is_serving = False
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                call.give_up()


waiting_thread: ContextVar[WaitingThread | None] = ContextVar("pyjms_waiting_thread", default=None)
"""The thread that waits for the current task in a blocking call."""


def is_on_a_loop() -> bool:
    """Return whether the calling code runs on an event loop, where it must not block."""
    try:
        current_token()  # of this thread; context variables may come from a task on a loop
    except RuntimeError:
        return False
    return True


async def call_in_thread(function: Callable[..., Awaitable[Any] | Any], *args: Any) -> Any:
    """Call a function that may block in the thread to which it belongs; return its result.

    If there is no such thread, or it has ended or is busy in a handler, another thread is used: a
    task that outlives the handler that has started it still has the handler's context variables. A
    coroutine function is awaited on the loop.
    """
    thread, worker = waiting_thread.get(), current_worker.get()
    if thread is not None and thread.is_serving:
        result = await thread.run(function, *args)
    elif worker is not None and _is_free(worker):
        result = await worker.run(function, *args)
    else:
        result = await to_thread.run_sync(partial(function, *args))
    return await call(lambda: result)


def _is_free(worker: Worker) -> bool:
    return worker.loop.is_current() and not worker.busy and not worker.closed


class TransactionSynchronization:
    """Callbacks around the end of a transaction, `def` or `async def`; override what is needed.

    Spring: TransactionSynchronization. `order`: lower ones are called first. Callbacks are called
    in the thread that has registered them, where they may block; those of a coroutine on its loop.
    Before the end, templates take part in the transaction; after it they do not.
    """

    order: float = 0

    def before_commit(self) -> object:
        """Run before the commit; an exception rolls the transaction back and is raised."""

    def before_completion(self) -> object:
        """Run before the commit or rollback; an exception is logged."""

    def after_commit(self) -> object:
        """Run after the commit; an exception is raised, and the transaction stays committed."""

    def after_completion(self, committed: bool) -> object:
        """Run after the commit or rollback; an exception is logged."""


class Synchronizations:
    """The callbacks of one transaction, and the sessions of templates in it."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[TransactionSynchronization, bool]] = []
        self._sessions: dict[int, tuple[ConnectionFactory, BoundResource]] = {}
        self._loop = LoopHandle()

    def register(self, synchronization: TransactionSynchronization) -> None:
        """Add callbacks, for the calling thread or the loop."""
        self._callbacks.append((synchronization, not is_on_a_loop()))

    def session_of(self, factory: ConnectionFactory) -> BoundResource | None:
        """Return the session that templates with this factory have in the transaction."""
        found = self._sessions.get(id(factory))
        return None if found is None else found[1]

    async def open_session(
        self, factory: ConnectionFactory, transacted: bool, mode: AcknowledgeMode
    ) -> BoundResource:
        """Open a session for templates with this factory, until the transaction ends.

        Raises:
            IllegalStateException: the transaction belongs to another loop than the current one.
            JMSException: it could not be opened.
        """
        if not self._loop.is_current():
            raise IllegalStateException(
                "The template belongs to another event loop than the transaction",
                hint="create the template where the transaction begins: both in a handler's "
                "thread, or both outside of handlers",
            )
        connection = await factory.create_connection()
        try:
            session = await connection.create_session(transacted, mode)
        except BaseException:
            await close_quietly(connection)
            raise
        resource = BoundResource(connection, session)
        self._sessions[id(factory)] = (factory, resource)
        self.register(_SessionEnd(resource))
        return resource

    async def before_commit(self) -> None:
        """Call `before_commit` of all."""
        for callback, in_thread in self._in_order():
            await _run(in_thread, callback.before_commit)

    async def before_completion(self) -> None:
        """Call `before_completion` of all; errors are logged."""
        for callback, in_thread in self._in_order():
            try:
                await _run(in_thread, callback.before_completion)
            except Exception:
                logger.exception("before_completion of %r failed", callback)

    async def after_commit(self) -> None:
        """Call `after_commit` of all."""
        for callback, in_thread in self._in_order():
            await _run(in_thread, callback.after_commit)

    async def after_completion(self, committed: bool) -> None:
        """Call `after_completion` of all; errors are logged."""
        for callback, in_thread in self._in_order():
            try:
                await _run(in_thread, callback.after_completion, committed)
            except Exception:
                logger.exception("after_completion of %r failed", callback)

    def _in_order(self) -> list[tuple[TransactionSynchronization, bool]]:
        return sorted(self._callbacks, key=lambda registered: registered[0].order)


async def _run(in_thread: bool, function: Callable[..., object], *args: object) -> None:
    await (call_in_thread if in_thread else call)(function, *args)


class _SessionEnd(TransactionSynchronization):
    """Ends a template's session together with the transaction."""

    def __init__(self, resource: BoundResource) -> None:
        self._resource = resource
        self._transacted = resource.session.transacted  # not available once the session is closed

    async def before_completion(self) -> None:
        """Close the session if it is not transacted."""
        if not self._transacted:
            await close_quietly(self._resource.session, self._resource.connection)

    async def after_commit(self) -> None:
        """Commit the session, after the transaction."""
        if self._transacted:
            try:
                await self._resource.session.commit()
            except Exception as error:
                raise SynchedLocalTransactionFailedException(
                    f"Local JMS transaction failed to commit: {error}",
                    hint="the main transaction is committed: the messages sent with it are lost",
                ) from error

    async def after_completion(self, committed: bool) -> None:
        """Close the session, which rolls back work that was not committed."""
        await close_quietly(self._resource.session, self._resource.connection)


def is_synchronization_active() -> bool:
    """Return whether the task is in a transaction with which callbacks can be registered."""
    return resources.current_synchronizations() is not None


def register_synchronization(synchronization: TransactionSynchronization) -> None:
    """Register callbacks for the end of the task's transaction.

    Raises:
        IllegalStateException: there is no transaction, or its manager has no synchronizations.
    """
    active = resources.current_synchronizations()
    if active is None:
        raise IllegalStateException(
            "Transaction synchronization is not active",
            hint="register it in a block of a ResourceTransactionManager, or of a "
            "JmsTransactionManager(..., synchronization=True)",
        )
    active.register(synchronization)
