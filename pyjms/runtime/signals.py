"""Signal handling: SIGINT and SIGTERM stop, a second one immediately; others call a function.

A second SIGINT or SIGTERM within half a second is ignored, because `timeout`, `uv run` and a
terminal's process group may deliver a signal twice.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms.errors import IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn

_TASK: Final = "pyjms signals"

_SAME_SIGNAL: Final = 0.5
"""Seconds after the first signal during which another one is ignored."""


@asynccontextmanager
async def stop_on_signals(
    stopping: anyio.Event, logger: logging.Logger, work: str
) -> AsyncIterator[None]:
    """Set `stopping` on SIGINT or SIGTERM while the block runs. Main thread only.

    The handlers are set before the block begins and restored after it. The first signal logs that
    `work` is being finished; a further one after half a second or later ends the process.
    """
    watching = anyio.Event()
    async with while_watching(
        watching, spawn(_watch, stopping, watching, logger, work, name=_TASK)
    ):
        yield


async def _watch(
    stopping: anyio.Event, watching: anyio.Event, logger: logging.Logger, work: str
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        watching.set()
        first: float | None = None
        async for number in received:
            name = signal.Signals(number).name
            if first is not None and _clock.now() < first + _SAME_SIGNAL:
                continue
            if stopping.is_set():
                logger.warning("%s again: stopping now", name)
                # not by cancellation: whatever blocks the stop may not react to it
                logging.shutdown()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            logger.info("%s: finishing %s", name, work)
            first = _clock.now()
            stopping.set()


@asynccontextmanager
async def act_on_signals(
    actions: Mapping[str, Callable[[], Awaitable[object]]], logger: logging.Logger
) -> AsyncIterator[None]:
    """Await `actions[name]()` for each signal of that name while the block runs.

    Main thread only. Names that the operating system does not have are ignored. One action runs at
    a time, in the order of the signals; an exception of an action is logged.
    """
    calls = {getattr(signal, name): call for name, call in actions.items() if hasattr(signal, name)}
    if not calls:
        await checkpoint()
        yield
        return
    watching = anyio.Event()
    async with while_watching(watching, spawn(_act, calls, watching, logger, name=_TASK)):
        yield


@asynccontextmanager
async def while_watching(watching: anyio.Event, watcher: BackgroundTask) -> AsyncIterator[None]:
    """Begin the block when `watcher` handles its signals, and end it after the block."""
    try:
        while not (watching.is_set() or watcher.done):
            await checkpoint()
        yield
    finally:
        watcher.cancel()
        with anyio.CancelScope(shield=True):
            await watcher.wait()


async def _act(
    calls: Mapping[signal.Signals, Callable[[], Awaitable[object]]],
    watching: anyio.Event,
    logger: logging.Logger,
) -> None:
    with anyio.open_signal_receiver(*calls) as received:
        watching.set()
        async for number in received:
            name = signal.Signals(number).name
            logger.info("%s received", name)
            try:
                await calls[number]()
            except Exception:
                logger.exception("%s: the action failed", name)


def require_main_thread() -> None:
    """Check that signals are received in this thread."""
    if threading.current_thread() is not threading.main_thread():
        raise IllegalStateException(
            "run() needs the main thread: other threads receive no signals",
            hint="elsewhere use `async with application` in your own event loop",
        )
