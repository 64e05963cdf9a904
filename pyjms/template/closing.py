"""Closing of resources on every path, without hiding the exception of a block."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import anyio

from pyjms.jms.api import Closeable
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

_R = TypeVar("_R", bound=Closeable)
_T = TypeVar("_T")


class using(Generic[_R]):  # noqa: N801 - named like contextlib.closing
    """Close a resource at the end of an `async with` block.

    If the block fails or is cancelled, its exception propagates; closing then runs shielded from
    cancellation, and an error while closing is only logged at DEBUG.
    """

    def __init__(self, resource: _R) -> None:
        self._resource = resource

    async def __aenter__(self) -> _R:
        return self._resource

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._resource.close()
        else:
            await close_quietly(self._resource)


async def close_quietly(*resources: Closeable | None) -> None:
    """Close resources in this order, even while cancelled; errors are logged at DEBUG.

    None stands for a resource that was never opened.
    """
    for resource in resources:
        if resource is not None:
            await quietly(resource.close, f"close {resource!r}")


async def quietly(action: Callable[[], Awaitable[object]], description: str) -> None:
    """Await `action()`, even while cancelled; an error is logged at DEBUG with `description`."""
    with anyio.CancelScope(shield=True):
        try:
            await action()
        except Exception as error:
            logger.debug("Could not %s: %s", description, error)


async def call(function: Callable[..., Awaitable[_T] | _T], *args: object) -> _T:
    """Call a function or coroutine function and return its result."""
    result = function(*args)
    if inspect.isawaitable(result):
        return await result
    return result
