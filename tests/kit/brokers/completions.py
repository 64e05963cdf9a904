"""Waiting for the broker's completions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from pyjms_broker.api.completion import Completion


async def error_of(waiter: Completion) -> Exception | None:
    """Wait for a completion and return its error."""
    done = anyio.Event()
    waiter.then(lambda _: done.set())
    await done.wait()
    return waiter.error


@pytest.fixture
def answer() -> Callable[[Completion], Awaitable[Exception | None]]:
    return error_of
