"""A record of the calls of handlers: arguments and failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import anyio

from pyjms import _clock
from pyjms.core.interceptors import Proceed
from pyjms.errors import ListenerExecutionFailedException, RequestTimeoutException
from pyjms.jms.message import Message
from pyjms.listener.handler.interceptors import HandlerInvocation

__all__ = ["HandlerCall", "Recorder"]


@dataclass(frozen=True)
class HandlerCall:
    """One call of a handler."""

    handler: Callable[..., Any]
    message: Message
    error: BaseException | None
    """The exception that the handler raised; None: it returned."""
    result: object = None
    """The value that it returned."""


class Recorder:
    """Keeps the calls of an application's handlers, in the order in which they ended.

    It is an interceptor. A call that another interceptor answers without calling the handler counts
    as well.
    """

    order: ClassVar[float] = -math.inf
    """Outside all other interceptors, so that their failures are recorded as well."""

    def __init__(self) -> None:
        self.all_calls: list[HandlerCall] = []
        self._changed = anyio.Event()

    def calls(self, handler: Callable[..., Any]) -> list[HandlerCall]:
        """Return the calls of this handler. Methods compare by function and instance."""
        return [call for call in self.all_calls if call.handler == handler]

    def messages(self, handler: Callable[..., Any]) -> list[Message]:
        """Return the messages that this handler was called with."""
        return [call.message for call in self.calls(handler)]

    def results(self, handler: Callable[..., Any]) -> list[object]:
        """Return the results of the calls of this handler that did not fail."""
        return [call.result for call in self.calls(handler) if call.error is None]

    async def until_called(
        self, handler: Callable[..., Any], times: int = 1, timeout: float = 5.0
    ) -> None:
        """Wait until the handler has returned or failed `times` times in total.

        Raises:
            RequestTimeoutException: it had not after `timeout` seconds of real time.
        """
        await self.until(lambda _: len(self.calls(handler)) >= times, timeout)

    def errors(self) -> list[BaseException]:
        """Return the exceptions that the handlers raised."""
        return [call.error for call in self.all_calls if call.error is not None]

    async def until(
        self, condition: Callable[[list[HandlerCall]], bool], timeout: float = 5.0
    ) -> None:
        """Wait until `condition` is true of all calls so far, for example of a topic's listener.

        The calls have ended, but their messages may not be acknowledged yet.

        Args:
            condition: called with the list of calls, once and after each of them.
            timeout: seconds of real time.

        Raises:
            RequestTimeoutException: it is still false after `timeout`.
        """
        with _clock.SystemClock().timeout(timeout) as scope:
            while not condition(self.all_calls):
                await self._changed.wait()
        if scope.cancelled_caught:
            failed = len(self.errors())
            raise RequestTimeoutException(
                f"The condition did not hold within {timeout:g} s: there were "
                f"{len(self.all_calls)} calls of handlers, {failed} of them failed"
            )

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed) -> object:
        """Record one call: the interceptor, around those of the application."""
        error: BaseException | None = None
        result: object = None
        try:
            result = await proceed()
        except Exception as raised:
            error = raised
            if isinstance(raised, ListenerExecutionFailedException):
                error = raised.__cause__ or raised
            raise
        else:
            return result
        finally:
            self.all_calls.append(
                HandlerCall(invocation.handler, invocation.message, error, result)
            )
            changed, self._changed = self._changed, anyio.Event()
            changed.set()
