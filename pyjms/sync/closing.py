"""Blocking objects that are closed, and the threads of the listeners set on them.

The thread of a listener is registered with its consumer, session and connection; whichever of
them is closed first ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from pyjms._wakeup import LoopHandle
from pyjms.jms import api
from pyjms.jms.message import Message
from pyjms.listener.workers import Worker
from pyjms.sync.facade import Facade
from pyjms.sync.portal import call_on_loop
from pyjms.sync.shared_loop import close_at_exit

__all__ = ["BlockingListener", "CloseableFacade", "ListenerThreads"]

C = TypeVar("C", bound=api.Closeable)

BlockingListener = Callable[[Message], object]
"""A function that is called with each message, in a thread of its own, so that it may block."""


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
        workers = set(self._workers)
        self.remove(workers)
        for worker in workers:
            worker.close()


class CloseableFacade(Facade[C], Generic[C]):
    """A blocking object with `close`; `with` closes it."""

    __slots__ = ("listener", "threads")

    threads: ListenerThreads
    listener: BlockingListener | None

    def attach(self, core: Any, loop: LoopHandle, owner: Facade[Any] | None) -> None:
        """Set what the object stands for, and register its threads with those of the owner."""
        super().attach(core, loop, owner)
        parent = owner.threads if isinstance(owner, CloseableFacade) else None
        self.threads = ListenerThreads(parent)
        self.listener = None
        if owner is None or not isinstance(owner, CloseableFacade):
            close_at_exit(core, loop, "close")

    def close(self) -> None:
        """Close it and end its listener threads. Blocks; closing twice is fine.

        In a child process this has no effect on what was opened before the fork.
        """
        if not self.loop.in_this_process:
            return
        try:
            call_on_loop(self.loop, self.core.close)
        finally:
            self.threads.close()

    def _set_listener(self, target: api.MessageConsumer | api.Session, listener: Any) -> None:
        self.threads.close()
        if listener is None:
            call_on_loop(self.loop, target.set_message_listener, None)
        else:
            self.threads.add(call_on_loop(self.loop, _listen_in_thread, target, listener))
        self.listener = listener

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _listen_in_thread(
    target: api.MessageConsumer | api.Session, listener: BlockingListener
) -> Worker:
    worker = Worker(f"pyjms listener of {target!r}")

    async def call(message: Message) -> None:
        await worker.run(listener, message)

    await target.set_message_listener(call)
    return worker
