"""Blocking objects that can be closed, and the threads of their listeners.

The thread of a listener is registered with its consumer, session and connection; it ends when the
first of them is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from pyjms._wakeup import LoopHandle
from pyjms.client.completion_listeners import checked_listener
from pyjms.core.workers import Worker
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms import api
from pyjms.jms.api import AsyncCallback, CompletionListener
from pyjms.jms.message import Message
from pyjms.sync.attributes import Attribute, ReadOnly
from pyjms.sync.facade import Facade, SessionGuard, SessionPart, sessions_in_use
from pyjms.sync.portal import call_on_loop
from pyjms.sync.shared_loop import close_at_exit

__all__ = [
    "BlockingListener",
    "CloseableFacade",
    "CompletionThread",
    "ListenerThreads",
    "ListeningFacade",
    "Measured",
    "ThreadedCallback",
    "ThreadedListener",
    "TransformerAttribute",
]

C = TypeVar("C", bound=api.Closeable)
V = TypeVar("V")
L = TypeVar("L", api.MessageConsumer, api.Session)

BlockingListener = Callable[[Message], object]
"""A function that is called with each message, in a separate thread, so that it may block."""


class TransformerAttribute(Attribute[api.MessageTransformer | None]):
    """The message transformer of an object; it is called on the loop and must not block."""


class Measured(ReadOnly[V | None]):
    """The statistics of an object; None if `stats_enabled` is off."""

    def __init__(self) -> None:
        super().__init__("The statistics; None if `stats_enabled` is off.")


class ListenerThreads:
    """The listener threads of one object and of those that it created."""

    def __init__(self, parent: ListenerThreads | None) -> None:
        self._parent = parent
        self._workers: set[Worker] = set()

    def add(self, worker: Worker) -> None:
        """Register a thread, here and with the parents."""
        self._workers.add(worker)
        if self._parent is not None:
            self._parent.add(worker)

    def remove(self, workers: set[Worker]) -> None:
        """Unregister threads, here and with the parents."""
        self._workers -= workers
        if self._parent is not None:
            self._parent.remove(workers)

    def close(self) -> None:
        """End all threads registered here."""
        self.end(set(self._workers))

    def end(self, workers: set[Worker]) -> None:
        """End these threads and unregister them."""
        self.remove(workers)
        for worker in workers:
            worker.close()


class _InThread:
    """Calls the two methods of a listener in a thread, so that they may block.

    One thread serves all listeners of one producer; it starts with the first call.

    Raises:
        TypeError: the listener does not have the two methods.
    """

    def __init__(self, thread: CompletionThread) -> None:
        self._run = thread.run


class ThreadedListener(_InThread):
    """Calls a completion listener in a thread."""

    def __init__(self, listener: CompletionListener, thread: CompletionThread) -> None:
        super().__init__(thread)
        checked_listener(listener, None)
        self.listener = listener

    async def on_completion(self, message: Message) -> None:
        """Call the listener's method and wait until it has returned."""
        await self._run(self.listener.on_completion, message)

    async def on_exception(self, message: Message, error: JMSException) -> None:
        """Call the listener's method and wait until it has returned."""
        await self._run(self.listener.on_exception, message, error)


class ThreadedCallback(_InThread):
    """Calls an AsyncCallback in the thread of the completion listeners."""

    def __init__(self, callback: AsyncCallback, thread: CompletionThread) -> None:
        super().__init__(thread)
        checked_listener(None, callback)
        self._callback = callback

    async def on_success(self) -> None:
        """Call the callback's method and wait until it has returned."""
        await self._run(self._callback.on_success)

    async def on_exception(self, error: JMSException) -> None:
        """Call the callback's method and wait until it has returned."""
        await self._run(self._callback.on_exception, error)


class CompletionThread:
    """The thread of the completion listeners of one object; called on the loop."""

    def __init__(self, owner: object, threads: ListenerThreads, guard: SessionGuard) -> None:
        self._name = f"pyjms listener of {owner!r}"
        self._threads = threads
        self._guards = (guard,)
        self._worker: Worker | None = None

    async def run(self, function: Callable[..., object], *args: object) -> None:
        """Run `function(*args)` in the thread, which the first call starts."""
        if self._worker is None:
            self._worker = Worker(self._name)
            self._threads.add(self._worker)
        await _run_within(self._guards, self._worker, function, *args)


class CloseableFacade(Facade[C], Generic[C]):
    """A blocking object with `close`; `with` closes it."""

    __slots__ = ("_worker", "listener", "threads")

    threads: ListenerThreads
    listener: BlockingListener | None
    _worker: Worker | None

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core, and register the object's threads with those of the owner."""
        super().attach(core, loop, owner)
        parent = owner.threads if isinstance(owner, CloseableFacade) else None
        self.threads = ListenerThreads(parent)
        self.listener = None
        self._worker = None
        if owner is None or not isinstance(owner, CloseableFacade):
            close_at_exit(core, loop, "close")

    def close(self) -> None:
        """Close it and end its listener threads. Blocks. Idempotent.

        In a forked child process it has no effect on objects opened before the fork.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if not self.loop.in_this_process:
            return
        is_refused = False
        try:
            call_on_loop(self.loop, self.core.close)
        except IllegalStateException:
            is_refused = True
            raise
        finally:
            if not is_refused:
                self.threads.close()

    def _set_listener(
        self,
        set_on_core: Callable[[Any], Coroutine[Any, Any, None]],
        listener: Callable[[Any], object] | None,
        previous: Callable[[Any], object] | None,
    ) -> None:
        """Set a listener that the core calls in a thread; end the previous listener's thread."""
        worker = None
        if listener is None:
            call_on_loop(self.loop, set_on_core, None)
        else:
            name = f"pyjms listener of {self.core!r}"
            guards = (self.guard,) if isinstance(self, SessionPart) else ()
            worker = call_on_loop(self.loop, _listen_in_thread, name, set_on_core, listener, guards)
        if previous is not None and self._worker is not None:
            self.threads.end({self._worker})
            self._worker = None
        if worker is not None:
            self.threads.add(worker)
            self._worker = worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ListeningFacade(CloseableFacade[L], Generic[L]):
    """A blocking object with a message listener: a consumer, or a session."""

    __slots__ = ()

    @property
    def message_listener(self) -> BlockingListener | None:
        """The listener that was set here, or None."""
        return self.listener

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Set the listener, which is called with each message in a thread; None removes it."""
        self._set_listener(self.core.set_message_listener, listener, self.listener)
        self.listener = listener


async def _listen_in_thread(
    name: str,
    set_on_core: Callable[[Any], Coroutine[Any, Any, None]],
    listener: Callable[[Any], object],
    guards: tuple[SessionGuard, ...],
) -> Worker:
    worker = Worker(name)

    async def call(argument: object) -> None:
        await _run_within(guards, worker, listener, argument)

    await set_on_core(call)
    return worker


async def _run_within(
    guards: tuple[SessionGuard, ...], worker: Worker, function: Callable[..., object], *args: object
) -> None:
    """Run `function(*args)` in the worker's thread, which may use these sessions."""
    token = sessions_in_use.set(guards)
    try:
        await worker.run(function, *args)
    finally:
        sessions_in_use.reset(token)
