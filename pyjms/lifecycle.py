"""Start-up and shutdown hooks: marks on functions, and the stack that runs them.

Start-up hooks run before the listener containers start, in the order of registration;
shutdown hooks run after the containers have drained, in reverse order. Hooks may be sync
or async, and their parameters may be `Provide[...]`. A failing start-up hook stops the
start; a failing shutdown hook is logged and the others still run.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["HookRunner", "hook_kind", "on_shutdown", "on_startup"]

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__pyjms_hook__"


def on_startup(function: F) -> F:
    """Run the function when the application starts, before any listener does."""
    setattr(function, _ATTRIBUTE, "startup")
    return function


def on_shutdown(function: F) -> F:
    """Run the function when the application stops, after the last message was handled."""
    setattr(function, _ATTRIBUTE, "shutdown")
    return function


def hook_kind(function: object) -> str | None:
    """`startup`, `shutdown`, or None for a function without a mark."""
    kind: str | None = getattr(function, _ATTRIBUTE, None)
    return kind


class HookRunner:
    """Keeps an application's hooks, each a call without arguments, and runs them."""

    def __init__(self) -> None:
        self._startup: list[tuple[str, Callable[[], Any]]] = []
        self._shutdown: list[tuple[str, Callable[[], Any]]] = []

    def add(self, kind: str, name: str, call: Callable[[], Any]) -> None:
        """Keep a hook of this kind (`startup` or `shutdown`)."""
        (self._startup if kind == "startup" else self._shutdown).append((name, call))

    async def run_startup(self) -> None:
        """Run the start-up hooks; the first failure ends it."""
        for name, call in self._startup:
            logger.debug("Start-up hook %s", name)
            await _run(call)

    async def run_shutdown(self) -> None:
        """Run the shutdown hooks, last one first; failures are logged."""
        for name, call in reversed(self._shutdown):
            try:
                await _run(call)
            except Exception:
                logger.exception("Shutdown hook %s failed", name)


async def _run(call: Callable[[], Any]) -> None:
    result = call()
    if inspect.isawaitable(result):
        await result
