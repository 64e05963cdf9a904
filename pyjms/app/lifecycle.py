"""Start-up and shutdown hooks: the decorators, and the stack that runs the functions.

Start-up hooks run before the listener containers start, in the order of registration; shutdown
hooks run after the containers have drained, in reverse order. Hooks may be sync or async, and their
parameters may be `Provide[...]`. A failing start-up hook stops the start; a failing shutdown hook
is logged and the others still run. Shutdown hooks have the rest of the application's `stop_timeout`
after the handlers have finished, and at least three seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

__all__ = ["HookRunner", "hook_kind", "on_shutdown", "on_startup"]

logger: Final = get_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__pyjms_hook__"


@overload
def on_startup(function: F) -> F: ...
@overload
def on_startup() -> Callable[[F], F]: ...
def on_startup(function: F | None = None) -> F | Callable[[F], F]:
    """Run the function when the application starts, before any listener does.

    `@on_startup` and `@on_startup()` mean the same.

    Raises:
        TypeError: the argument is not a function.
    """
    return _mark(function, "startup")


@overload
def on_shutdown(function: F) -> F: ...
@overload
def on_shutdown() -> Callable[[F], F]: ...
def on_shutdown(function: F | None = None) -> F | Callable[[F], F]:
    """Run the function when the application stops, after the last message was handled.

    `@on_shutdown` and `@on_shutdown()` mean the same.

    Raises:
        TypeError: the argument is not a function.
    """
    return _mark(function, "shutdown")


def _mark(function: F | None, kind: str) -> F | Callable[[F], F]:
    def add(hook: F) -> F:
        if not callable(hook):
            raise TypeError(f"@on_{kind} decorates a function, not {type(hook).__name__}")
        setattr(hook, _ATTRIBUTE, kind)
        return hook

    return add if function is None else add(function)


def hook_kind(function: object) -> str | None:
    """Return `startup`, `shutdown`, or None for a function that is not a hook."""
    kind: str | None = getattr(function, _ATTRIBUTE, None)
    return kind


class HookRunner:
    """Keeps the hooks of an application, as functions without arguments, and runs them."""

    def __init__(self) -> None:
        self._startup: list[tuple[str, Callable[[], Any]]] = []
        self._shutdown: list[tuple[str, Callable[[], Any]]] = []

    def add(self, kind: str, name: str, call: Callable[[], Any]) -> None:
        """Add a hook of this kind (`startup` or `shutdown`)."""
        (self._startup if kind == "startup" else self._shutdown).append((name, call))

    async def run_startup(self) -> None:
        """Run the start-up hooks in order; the first failure is raised."""
        for name, call in self._startup:
            logger.debug("Start-up hook %s", name)
            await _run(call)

    async def run_shutdown(self, seconds: float | None = None) -> None:
        """Run the shutdown hooks, last one first; failures are logged.

        After `seconds` (None: no limit) the running hook is cancelled, or abandoned if it runs in a
        thread, and the others are not run; the log names them.
        """
        hooks = list(self._shutdown)
        with _clock.timeout(seconds) as deadline:
            while hooks:
                name, call = hooks[-1]
                try:
                    await _run(call)
                except Exception:
                    logger.exception("Shutdown hook %s failed", name)
                hooks.pop()
        if deadline.cancelled_caught:
            *others, (name, _) = hooks
            logger.warning(
                "Shutdown hook %s did not end within %g s and is abandoned", name, seconds
            )
            for name, _ in reversed(others):
                logger.warning("Shutdown hook %s is not run: no time is left", name)


async def _run(call: Callable[[], Any]) -> None:
    result = call()
    if inspect.isawaitable(result):
        await result
