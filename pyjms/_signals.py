"""Stopping on SIGINT and SIGTERM: the first asks to stop, a second ends the process at once."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.lowlevel import checkpoint

from pyjms._wakeup import spawn

__all__ = ["stop_on_signals"]


@asynccontextmanager
async def stop_on_signals(
    stopping: anyio.Event, logger: logging.Logger, work: str
) -> AsyncIterator[None]:
    """Set `stopping` on SIGINT or SIGTERM while the block runs. Main thread only.

    The signals are handled before the block begins, and as before again after it. The first one
    logs that `work` is being finished; a second one ends the process.
    """
    watching = anyio.Event()
    watcher = spawn(_watch, stopping, watching, logger, work, name="pyjms signals")
    try:
        while not (watching.is_set() or watcher.done):
            await checkpoint()
        yield
    finally:
        watcher.cancel()
        with anyio.CancelScope(shield=True):
            await watcher.wait()


async def _watch(
    stopping: anyio.Event, watching: anyio.Event, logger: logging.Logger, work: str
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        watching.set()
        async for number in received:
            name = signal.Signals(number).name
            if stopping.is_set():
                logger.warning("%s again: stopping now", name)
                # not by cancelling: what blocks the stop may not react to that
                logging.shutdown()
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            logger.info("%s: finishing %s", name, work)
            stopping.set()
