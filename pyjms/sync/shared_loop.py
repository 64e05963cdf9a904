"""The loop shared by scripts and threads, in a daemon thread, and the cleanup at exit.

A script may end with everything still open. At exit, after the last non-daemon thread has ended,
the objects that were opened on the shared loop and not closed are closed in reverse order:
containers stop listening, connections notify their brokers, an embedded broker writes its data.
Listeners that are still handling a message have a moment to finish; nothing waits longer than
`_EXIT_TIMEOUT`.

The loop itself is not stopped. To stop it, asyncio would start a thread that shuts down the
executor of name resolution, and Python 3.12 cannot start threads during interpreter shutdown. The
loop's thread is a daemon thread, which is still waiting for events when the process ends.

After a fork, the child starts its own loop, because the thread exists only in the parent.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio

from pyjms import _clock
from pyjms._fork import call_in_child
from pyjms._logger import get_logger
from pyjms._wakeup import LoopHandle, loop_options, spawn
from pyjms.core.workers import current_worker

__all__ = ["close_at_exit", "current_loop", "shared_loop"]

logger: Final = get_logger(__name__)

_EXIT_TIMEOUT = 5.0


class _LoopThread:
    """A loop in its own thread, which runs until the process ends."""

    def __init__(self) -> None:
        self._ready: Future[LoopHandle] = Future()
        self._open: WeakValueDictionary[tuple[int, str], Any] = WeakValueDictionary()
        self._thread = threading.Thread(target=self._run, name="pyjms loop", daemon=True)
        self._thread.start()
        self.loop = self._ready.result()
        atexit.register(self._close_all)

    def add(self, core: object, close: str) -> None:
        """Have `core` closed at exit by its coroutine method `close`, if it still exists."""
        self._open[id(core), close] = core

    def _run(self) -> None:
        try:
            anyio.run(self._main, backend_options=loop_options())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _main(self) -> None:
        self._ready.set_result(LoopHandle())
        await anyio.sleep_forever()

    def _close_all(self) -> None:
        """Close all open objects, and wait for that. Called at exit, in the main thread."""
        if not self.loop.in_this_process or not self._open:
            return
        done = threading.Event()

        async def close() -> None:
            try:
                with _clock.timeout(_EXIT_TIMEOUT):
                    for (_, method), core in reversed(list(self._open.items())):
                        await _close_quietly(getattr(core, method))
            finally:
                done.set()

        self.loop.call_soon(lambda: spawn(close, name="pyjms exit"))
        done.wait(_EXIT_TIMEOUT + 1)


async def _close_quietly(close: Callable[[], Awaitable[object]]) -> None:
    try:
        await close()
    except Exception as error:
        logger.debug("Closing at exit failed: %s", error)


_lock = threading.Lock()
_shared: _LoopThread | None = None


@call_in_child
def _forget() -> None:
    global _shared, _lock
    _shared = None
    _lock = threading.Lock()


def shared_loop() -> LoopHandle:
    """Return the loop that all threads of this process share; the first call starts it."""
    return _loop_thread().loop


def _loop_thread() -> _LoopThread:
    global _shared
    with _lock:
        if _shared is None:
            _shared = _LoopThread()
        return _shared


def current_loop() -> LoopHandle:
    """Return the loop for new objects: in a handler the application's, else the shared loop."""
    worker = current_worker.get()
    if worker is not None and worker.loop.in_this_process:
        return worker.loop
    return shared_loop()


def close_at_exit(core: object, loop: LoopHandle, close: str) -> None:
    """Close `core` when the process ends, by its coroutine method `close`, if `loop` is shared.

    Closing an object that is already closed has no effect.
    """
    shared = _shared
    if shared is not None and shared.loop is loop:
        shared.add(core, close)
