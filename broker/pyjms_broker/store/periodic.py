"""Background work of stores that continues after errors, which are logged.

A failure loses nothing, because the journal has everything, but a store whose maintenance has
ended would grow without bound.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

_EXPECTED: Final = (OSError, sqlite3.Error, JMSException)


async def run_logged(work: Callable[[], Awaitable[object]], name: str) -> Exception | None:
    """Run `work`; log an error under `name` and return it. Cancellable."""
    error: Exception | None = None
    try:
        await work()
    except _EXPECTED as failure:
        error = failure
        logger.warning("%s failed: %s", name, error)
    except Exception as failure:
        error = failure
        logger.exception("%s failed", name)
    return error


async def run_every(interval: float, work: Callable[[], Awaitable[object]], name: str) -> NoReturn:
    """Run `work` every `interval` seconds until cancelled; errors are logged under `name`."""
    while True:
        await _clock.sleep(interval)
        await run_logged(work, name)
