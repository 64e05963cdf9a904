"""Interceptors: code around every call of a handler.

`JmsApplication(interceptors=[...])` sets interceptors for all handlers of an application, the
option `interceptors` of a container factory for the factory's listeners, the same option of
`@jms_listener` for one listener, and the property `interceptors` for a container that the
application creates itself (Spring: an advice chain). In YAML they are named under
`jms.listener.interceptors` and `listeners.<id>.interceptors`. The application's interceptors
surround the factory's, which surround the listener's.

    async def timed(invocation: HandlerInvocation, proceed: Proceed) -> object:
        started = time.monotonic()
        try:
            return await proceed()
        finally:
            record(invocation.listener_id, time.monotonic() - started)

An interceptor is an `async def` that runs on the loop, or a `def` that runs in the consumer's
thread and may block; see `pyjms.core.interceptors`, also for the order. `proceed()` runs the next
interceptor; the innermost `proceed()` resolves the arguments, calls the handler, sends the reply
and returns the result. Therefore

* `proceed` raises the handler's exception, and an exception of an interceptor counts as the
  handler's failure: the message is rolled back and delivered again;
* an interceptor that returns without calling `proceed` has handled the message: it is committed,
  and no reply is sent;
* an interceptor may call `proceed` again, to retry without a redelivery. Messages that the handler
  has already sent in the session's transaction stay in it.

A listener's interceptor chain is built once, when its container is created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, Literal, Protocol

from pyjms._forwarding import Computed
from pyjms.core.interceptors import Proceed
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.jms.properties import MessageProperties

__all__ = [
    "HandlerInterceptor",
    "HandlerInvocation",
    "SettlementInterceptor",
    "SettlementInvocation",
]


@dataclass(slots=True, eq=False, repr=False)
class HandlerInvocation:
    """One call of a handler, as interceptors see it."""

    handler: Callable[..., object]
    """The function marked with `@jms_listener`, or the message listener of a container."""
    listener_id: str | None
    """The listener's id; None for a container without a `bean_name`."""
    message: Message
    """The message; its headers are its attributes."""
    session: Session
    """The session that received the message (coroutines)."""
    messages: Sequence[Message] = ()
    """Of a batch listener: all messages of the batch; `message` is the last one."""

    destination: ClassVar[Computed[Destination | None]] = Computed(
        attrgetter("message.destination"), "The destination to which the message was sent."
    )
    properties: ClassVar[Computed[MessageProperties]] = Computed(
        attrgetter("message.properties"),
        "The message's properties, decoded when they are first read.",
    )

    def __repr__(self) -> str:
        name = getattr(self.handler, "__qualname__", type(self.handler).__name__)
        return f"<HandlerInvocation {name} of {self.listener_id!r}: {self.message.message_id}>"


class HandlerInterceptor(Protocol):
    """Surrounds the calls of handlers: an `async def`, or a `def` that may block."""

    def __call__(self, invocation: HandlerInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `proceed()`, and return its result."""


@dataclass(slots=True, eq=False)
class SettlementInvocation:
    """The settlement of a delivery by a container, after the handler has returned."""

    operation: Literal["commit", "ack"]
    """Whether the session's transaction is committed, or the message acknowledged."""
    listener_id: str | None
    """The listener's id; None for a container without a `bean_name`."""
    message: Message
    """The message; for a batch, the last one."""


class SettlementInterceptor(Protocol):
    """Surrounds commits and acknowledgements: an `async def`, or a `def` that may block."""

    def __call__(self, invocation: SettlementInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `proceed()`, which raises if the settlement fails."""
