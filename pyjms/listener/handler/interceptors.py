"""Interceptors: code around every call of a handler.

`JmsApplication(interceptors=[...])` sets them for all handlers of an application, the property
`interceptors` for one container (Spring: an advice chain). An interceptor is a coroutine function,
or an object with an `async def __call__`:

    async def timed(invocation: HandlerInvocation, proceed: Proceed) -> object:
        started = time.monotonic()
        try:
            return await proceed()
        finally:
            record(invocation.listener_id, time.monotonic() - started)

`proceed()` runs the next interceptor and, innermost, the handler: it resolves the arguments, calls
the handler (a `def` handler in its thread), sends the reply and returns the result. So

* what `proceed` raises is the handler's own exception, and what an interceptor raises counts as
  the handler's failure: the message is rolled back and delivered again;
* an interceptor that returns without calling `proceed` has handled the message: it is committed,
  and no reply is sent;
* an interceptor may call `proceed` again, to retry without a redelivery. Messages that the handler
  has already sent in the session's transaction stay in it.

Interceptors run on the event loop, so they must not block. A context variable that one sets before
`proceed` is visible in the handler, also in a `def` handler.

The first of the list is the outermost. An interceptor with an attribute `order` (a number, 0 when
absent) is moved: lower ones are further out; equal ones keep the order of the list (Spring:
Ordered). The list is fixed when the listener is created.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from pyjms.errors import ConfigurationException
from pyjms.jms.api import Session
from pyjms.jms.message import Message

__all__ = ["HandlerInterceptor", "HandlerInvocation", "Proceed", "call_through", "in_order"]


class Proceed(Protocol):
    """Runs the rest of the chain and returns the handler's result."""

    def __call__(self) -> Awaitable[Any]:
        """Call the next interceptor or, innermost, the handler; await the result."""


@dataclass(slots=True, eq=False, repr=False)
class HandlerInvocation:
    """One call of a handler, as interceptors see it."""

    handler: Callable[..., Any]
    """The function marked with `@jms_listener`, or the message listener of a container."""
    listener_id: str | None
    """The listener's id; None for a container without a `bean_name`."""
    message: Message
    session: Session
    """The session that received the message (coroutines)."""

    def __repr__(self) -> str:
        name = getattr(self.handler, "__qualname__", type(self.handler).__name__)
        return f"<HandlerInvocation {name} of {self.listener_id!r}: {self.message.message_id}>"


class HandlerInterceptor(Protocol):
    """Surrounds the calls of handlers."""

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `await proceed()`, and return its result."""


def in_order(interceptors: Iterable[HandlerInterceptor]) -> tuple[HandlerInterceptor, ...]:
    """Return the interceptors, outermost first.

    Raises:
        ConfigurationException: one is not a coroutine function, so it could not await the handler.
    """
    found = list(interceptors)
    for interceptor in found:
        called = getattr(interceptor, "__call__", None)  # noqa: B004 - the method itself is wanted
        if not (inspect.iscoroutinefunction(interceptor) or inspect.iscoroutinefunction(called)):
            name = getattr(interceptor, "__qualname__", None) or repr(interceptor)
            raise ConfigurationException(
                f"Interceptor {name} is not a coroutine function",
                hint="write: async def name(invocation, proceed): return await proceed()",
            )
    return tuple(sorted(found, key=lambda interceptor: getattr(interceptor, "order", 0)))


async def call_through(
    interceptors: tuple[HandlerInterceptor, ...], invocation: HandlerInvocation, call: Proceed
) -> Any:
    """Call `call` through the interceptors and return what the outermost one returns."""

    async def proceed_from(position: int) -> Any:
        if position == len(interceptors):
            return await call()
        return await interceptors[position](invocation, lambda: proceed_from(position + 1))

    return await proceed_from(0)
