"""Functions that a broker calls when it starts and stops.

(ActiveMQ BrokerService.addPreShutdownHook, addShutdownHook; activemq-broker B9)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from pyjms import _clock
from pyjms._logger import get_logger

__all__ = ["Hook", "run_hooks", "run_stop_hooks"]

logger = get_logger(__name__)

Hook: TypeAlias = Callable[[], Awaitable[object] | object]
"""A function without arguments, `def` or `async def`, on the broker's loop: it must not block."""


async def run_hooks(hooks: Iterable[Hook]) -> None:
    """Call hooks one after the other; the first error is raised."""
    for hook in hooks:
        result = hook()
        if inspect.isawaitable(result):
            await result


async def run_stop_hooks(hooks: Iterable[Hook], broker_name: str, timeout: float | None) -> None:
    """Call hooks one after the other; an error of one is logged, and the next is called.

    Args:
        hooks: the functions.
        broker_name: for the log.
        timeout: seconds that each has, None for no limit; an `async def` is then cancelled.
    """
    for hook in hooks:
        try:
            with _clock.timeout(timeout) as scope:
                await run_hooks([hook])
        except Exception:
            logger.exception("Broker %s: the shutdown hook %r failed", broker_name, hook)
            continue
        if scope.cancelled_caught:
            logger.warning(
                "Broker %s: the shutdown hook %r did not end within %s s",
                broker_name,
                hook,
                timeout,
            )
