"""Hooks: functions that a broker calls when it starts and stops.

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
"""A function without arguments, `def` or `async def`. It runs on the event loop: do not block."""


async def run_hooks(hooks: Iterable[Hook]) -> None:
    """Call the hooks in order; raise the first error."""
    for hook in hooks:
        result = hook()
        if inspect.isawaitable(result):
            await result


async def run_stop_hooks(hooks: Iterable[Hook], broker_name: str, timeout: float | None) -> None:
    """Call the hooks in order; an error is logged, and the next hook is called.

    Args:
        hooks: the functions.
        broker_name: for the log.
        timeout: seconds after which an `async def` is cancelled, per hook; None: no limit.
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
