"""Limits of a listener's calls: `timeout`, the seconds of one call, and `rate_limit`.

A call of a coroutine function is cancelled when its time is over, and fails with TimeoutError. A
thread cannot be interrupted: a call in the consumer's thread goes on, which is logged, and the
listener counts as stuck until the call has ended. The arguments of a `def` handler are part of its
call; interceptors, the reply and the commit are not.

What calls the user's function applies the timeout: `ListenerCall`, a handler's listener, which has
that of its container, or a MessageListenerAdapter, which finds it in `current_timeout`.

A rate limit delays messages that have been received: a consumer that waited before it receives
would lose its turn where no message comes. The first call is not delayed; after it, the calls are
evenly spaced, also after a pause.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.template.workers import Worker, required_worker

if TYPE_CHECKING:
    from pyjms.listener.properties import ContainerProperties

logger: Final = get_logger(__name__)

T = TypeVar("T")


_SHORTEST: Final = 0.001
"""Seconds."""


def check_call_limits(timeout: float | None, rate_limit: float | None) -> None:
    """Check the options of calls; None: no limit."""
    if timeout is not None:
        _clock.check_seconds("timeout", timeout, least=_SHORTEST, otherwise="None: no limit")
    if rate_limit is not None and not 0 < rate_limit < math.inf:
        raise ValueError(
            f"rate_limit is a number of messages a second above 0, such as 0.5, not {rate_limit!r}"
        )


class CallTimeout:
    """The timeout of one container's calls, and the number of those that took longer."""

    def __init__(self, properties: ContainerProperties) -> None:
        self.seconds: float | None = None
        """None: no limit."""
        self.expired: int = 0
        """The number of calls that took longer."""
        self.late: int = 0
        """The number of those that are still running."""
        self._properties = properties

    async def call(self, function: Callable[..., Any], *args: Any, is_coroutine: bool) -> Any:
        """Call a coroutine function, or another one in the thread of the current consumer.

        Raises:
            TimeoutError: the coroutine was cancelled, because its time was over.
        """
        if is_coroutine:
            return await self._cancel_late(function(*args))
        result = await self._tell_late(required_worker(), function, *args)
        if inspect.isawaitable(result):  # a lambda or a wrapper around a coroutine function
            result = await self._cancel_late(result)
        return result

    async def _cancel_late(self, call: Awaitable[T]) -> T:
        """Await `call`, and cancel it when its time is over."""
        with _clock.timeout(self.seconds) as scope:
            try:
                result = await call
            finally:
                self.expired += scope.cancel_called
        if scope.cancel_called:
            raise TimeoutError(f"The handler was cancelled after its timeout of {self.seconds:g} s")
        return result

    async def _tell_late(self, worker: Worker, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in the thread of `worker`, and warn when its time is over."""
        was_late = False

        def on_late() -> None:
            nonlocal was_late
            was_late = True
            self._on_late()

        try:
            return await worker.run_within(self.seconds, on_late, function, *args)
        finally:
            self.late -= was_late

    def _on_late(self) -> None:
        self.expired += 1
        self.late += 1
        properties = self._properties
        logger.warning(
            "The handler of listener %s has been running for longer than its timeout of %g s. A "
            "thread cannot be interrupted, so its consumer waits: set timeouts on what it calls, "
            "or write async def",
            properties.log_name,
            self.seconds,
            extra=properties.log_extra,
        )


current_timeout: ContextVar[CallTimeout | None] = ContextVar("pyjms_call_timeout", default=None)
"""The timeout of the call in progress, for a listener that calls a handler in turn."""


class RateLimit:
    """Spaces the messages of one container. Belongs to one loop."""

    def __init__(self) -> None:
        self.interval: float | None = None
        """Seconds from one message to the next; None: no limit."""
        self._next = 0.0
        """When the next message may be handled, in seconds of the clock."""

    def take_turns(self, interval: float, messages: int) -> float:
        """Take the next turns for some messages; return the seconds until then."""
        now = _clock.now()
        turn = max(self._next, now)
        self._next = turn + messages * interval
        return turn - now
