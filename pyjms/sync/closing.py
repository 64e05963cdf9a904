"""Blocking objects that are closed, and the threads of the listeners set on them.

A thread is known to its consumer, session and connection; whichever of them is closed
first ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pyjms._wakeup import LoopHandle
from pyjms.jms import api
from pyjms.jms.message import Message
from pyjms.listener.workers import Worker
from pyjms.sync.facade import Facade
from pyjms.sync.portal import call_on_loop

__all__ = ["BlockingListener", "CloseableFace"]

C = TypeVar("C", bound=api.Closeable)

BlockingListener = Callable[[Message], object]
"""A function that is called with each message, in a thread, so that it may block."""


class CloseableFace(Facade[C], Generic[C]):
    """A blocking object with `close`; `with` closes it."""

    _owner: CloseableFace[Any] | None
    _threads: set[Worker]

    @classmethod
    def of(
        cls, core: Any, loop: LoopHandle | None = None, owner: Facade[Any] | None = None
    ) -> Self:
        """The blocking face of `core`, which `owner` made."""
        face = super().of(core, loop)
        face._owner = owner if isinstance(owner, CloseableFace) else None
        face._threads = set()
        return face

    def close(self) -> None:
        """Give everything back. Closing twice is fine."""
        try:
            call_on_loop(self._loop, self.core.close)
        finally:
            self._end_threads()

    def _listen(self, target: api.MessageConsumer | api.Session, listener: Any) -> None:
        self._end_threads()
        if listener is None:
            call_on_loop(self._loop, target.set_message_listener, None)
            return
        worker = call_on_loop(self._loop, _listen_in_a_thread, target, listener)
        face: CloseableFace[Any] | None = self
        while face is not None:
            face._threads.add(worker)
            face = face._owner

    def _end_threads(self) -> None:
        threads = tuple(self._threads)
        face: CloseableFace[Any] | None = self
        while face is not None:
            face._threads.difference_update(threads)
            face = face._owner
        for worker in threads:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


async def _listen_in_a_thread(
    target: api.MessageConsumer | api.Session, listener: BlockingListener
) -> Worker:
    worker = Worker(f"pyjms listener of {target!r}")

    async def call(message: Message) -> None:
        await worker.run(listener, message)

    await target.set_message_listener(call)
    return worker
