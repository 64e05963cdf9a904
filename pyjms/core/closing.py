"""Using what must be closed, whatever happens, without hiding what happened."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from pyjms.errors import JMSException
from pyjms.jms.api import Closeable

__all__ = ["call", "close_quietly", "quietly", "using"]

logger = logging.getLogger(__name__)

_R = TypeVar("_R", bound=Closeable)
_T = TypeVar("_T")


async def using(resource: _R, use: Callable[[_R], Awaitable[_T]]) -> _T:
    """Return `await use(resource)` and close the resource.

    A failure of `use`, or its cancellation, comes out as it is; the closing then runs
    shielded, and its own failure goes to the DEBUG log.
    """
    try:
        result = await use(resource)
    except BaseException:
        await close_quietly(resource)
        raise
    await resource.close()
    return result


async def close_quietly(resource: Closeable) -> None:
    """Close, even while cancelled; a failure goes to the DEBUG log."""
    await quietly(resource.close, f"close {resource!r}")


async def quietly(action: Callable[[], Awaitable[object]], what: str) -> None:
    """Do `action`, even while cancelled; a failure goes to the DEBUG log as `what`."""
    with anyio.CancelScope(shield=True):
        try:
            await action()
        except JMSException as error:
            logger.debug("Could not %s: %s", what, error)


async def call(function: Callable[..., Awaitable[_T] | _T], *args: object) -> _T:
    """Call a function or coroutine function and return its result."""
    result = function(*args)
    if inspect.isawaitable(result):
        return await result
    return result
