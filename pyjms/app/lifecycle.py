"""Start-up and shutdown hooks: the decorators, and the calls of the functions.

Start-up hooks run before the listener containers start, in the order of registration; shutdown
hooks run after the containers have drained, in reverse order. Hooks may be sync or async, and their
parameters may be `Provide[...]`. A failing start-up hook stops the start; a failing shutdown hook
is logged and the others still run. Shutdown hooks have the rest of the application's `stop_timeout`
after the handlers have finished, and at least three seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar, overload

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

Hook: TypeAlias = tuple[str, str, Callable[[], Any]]
"""A hook: `startup` or `shutdown`, its name, and a function without arguments."""

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

    Example:
        @on_startup
        async def announce() -> None:
            print("listening")
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


async def run_startup(hooks: Iterable[Hook]) -> None:
    """Run the start-up hooks in order; the first failure is raised."""
    for kind, name, call in hooks:
        if kind == "startup":
            logger.debug("Start-up hook %s", name)
            await _run(call)


async def run_shutdown(hooks: Iterable[Hook], seconds: float | None = None) -> None:
    """Run the shutdown hooks, last one first; failures are logged.

    After `seconds` (None: no limit) the running hook is cancelled, or abandoned if it runs in a
    thread, and the others are not run; the log names them.
    """
    left = [(name, call) for kind, name, call in hooks if kind == "shutdown"]
    with _clock.timeout(seconds) as deadline:
        while left:
            name, call = left[-1]
            try:
                await _run(call)
            except Exception:
                logger.exception("Shutdown hook %s failed", name)
            left.pop()
    if deadline.cancelled_caught:
        *others, (name, _) = left
        logger.warning("Shutdown hook %s did not end within %g s and is abandoned", name, seconds)
        for name, _ in reversed(others):
            logger.warning("Shutdown hook %s is not run: no time is left", name)


async def _run(call: Callable[[], Any]) -> None:
    result = call()
    if inspect.isawaitable(result):
        await result
