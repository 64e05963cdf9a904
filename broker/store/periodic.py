"""What a store does by itself, again and again: an error is told, and the next time comes.

The journal has everything, so nothing is lost meanwhile; but a store whose upkeep ended for
good would grow for ever.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from pyjms import _clock
from pyjms.errors import JMSException

__all__ = ["attempt", "repeat"]

logger = logging.getLogger(__name__)

_FAILURES: Final = (OSError, sqlite3.Error, JMSException)


async def attempt(work: Callable[[], Awaitable[object]], what: str) -> Exception | None:
    """Do `work` and return why it failed, which the log says of `what`; None: it did not."""
    error: Exception | None = None
    try:
        await work()
    except _FAILURES as failure:
        error = failure
        logger.warning("%s failed: %s", what, error)
    except Exception as failure:
        error = failure
        logger.exception("%s failed", what)
    return error


async def repeat(interval: float, work: Callable[[], Awaitable[object]], what: str) -> NoReturn:
    """Do `work` every `interval` seconds, whatever became of it before."""
    while True:
        await _clock.sleep(interval)
        await attempt(work, what)
