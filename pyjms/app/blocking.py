"""Blocking templates of an application, for threads of its process."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from pyjms.errors import IllegalStateException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.template.template import JmsTemplate as CoreTemplate

if TYPE_CHECKING:
    from pyjms.sync.template import JmsTemplate


class ApplicationLoop(LoopHandle):
    """The loop of an application, known while it runs; templates are made before that."""

    def __init__(self) -> None:
        """Know no loop until `bind`."""
        self._running: LoopHandle | None = None

    def bind(self) -> None:
        """Use the loop of the caller, because the application starts on it."""
        self._running = LoopHandle()
        self.token = self._running.token

    def release(self) -> None:
        """Forget the loop, because the application has stopped."""
        self._running = None

    @property
    def in_this_process(self) -> bool:
        """Whether it is not the loop of a fork's parent, where another loop would take its place.

        One that is not known yet is never replaced.
        """
        return self._running is None or self._running.in_this_process

    def is_current(self) -> bool:
        """Return whether the caller runs on this loop.

        Raises:
            IllegalStateException: the application is not running.
        """
        return self._require().is_current()

    def adopt(self, context: Context) -> Context:
        """Make a `context` of another thread usable for tasks on this loop, and return it."""
        return self._require().adopt(context)

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Call `function(*args)` on the loop. Thread-safe."""
        self._require().call_soon(function, *args)

    def _require(self) -> LoopHandle:
        if self._running is None:
            raise IllegalStateException(
                "The application of this template is not running",
                hint="call a blocking template between the application's start and its stop",
            )
        return self._running


def make_blocking_template(template: CoreTemplate, loop: ApplicationLoop) -> JmsTemplate:
    """Return the blocking template around the application's template."""
    # imported if an application has one: one of coroutines needs no blocking API
    from pyjms.sync.template import JmsTemplate  # noqa: PLC0415

    return JmsTemplate.of(template, loop)
