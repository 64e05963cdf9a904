"""Interceptors: code around each send and receive of a template, and each call of a handler.

A `SendInterceptor` surrounds the sends of a JmsTemplate and of handlers' replies, a
`ReceiveInterceptor` the receives of a JmsTemplate:

    async def add_tenant(sending: SendInvocation, proceed: Proceed) -> object:
        sending.set_property("tenant", tenant.get())
        return await proceed()

    template = JmsTemplate(factory, send_interceptors=[add_tenant])

A `HandlerInterceptor` surrounds calls of handlers. All interceptors are functions `(invocation,
proceed)`, or objects with such a `__call__`:

* a coroutine function runs on the event loop, must not block, and awaits `proceed()`;
* a `def` function runs in a thread, may block, and calls `proceed()`, which returns when the rest
  of the chain has ended. Around a handler it runs in the consumer's thread, in which `def` handlers
  are called as well; around a send it runs in a thread started for that send, which costs about as
  much as the send itself.

`proceed()` runs the next interceptor; the innermost `proceed()` makes the call itself. Context
variables set before it are visible inside. The first interceptor of a list is the outermost.
Interceptors with an attribute `order` (a number, 0 if absent) are sorted: a lower number is further
out, equal ones keep the order of the list (Spring: Ordered). A chain is built once, when it is set.

*Around handlers.* `JmsApplication(interceptors=[...])` sets interceptors for all handlers of an
application, the option `interceptors` of a container factory for the factory's listeners, the same
option of `@jms_listener` for one listener, and the property `interceptors` for a container that the
application creates itself (Spring: an advice chain). In YAML they are named under
`jms.listener.interceptors` and `listeners.<id>.interceptors`. The application's interceptors
surround the factory's, which surround the listener's.

    async def timed(invocation: HandlerInvocation, proceed: Proceed) -> object:
        started = time.monotonic()
        try:
            return await proceed()
        finally:
            record(invocation.listener_id, time.monotonic() - started)

The innermost `proceed()` resolves the arguments, calls the handler, sends the reply and returns the
result. Therefore

* `proceed` raises the handler's exception, and an exception of an interceptor counts as the
  handler's failure: the message is rolled back and delivered again;
* an interceptor that returns without calling `proceed` has handled the message: it is committed,
  and no reply is sent;
* an interceptor may call `proceed` again, to retry without a redelivery. Messages that the handler
  has already sent in the session's transaction stay in it.

A listener's interceptor chain is built once, when its container is created.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pyjms.errors import ConfigurationException
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message, MessageProperties
from pyjms.runtime.forwarding import Computed, TypedProperty
from pyjms.template.workers import Worker, current_worker

_I = TypeVar("_I")


class Proceed(Protocol):
    """Runs the rest of a chain: awaited in a coroutine function, called in a `def` function."""

    def __call__(self) -> Any:
        """Run the next interceptor, or make the call if there is none; return the result."""


class SendInvocation:
    """One message that is being sent, as interceptors see it."""

    __slots__ = ("destination", "is_reply", "message", "session")

    def __init__(
        self,
        destination: Destination,
        message: Message,
        session: Session,
        *,
        is_reply: bool = False,
    ) -> None:
        self.destination: Destination = destination
        """The destination to which it is sent."""
        self.message: Message = message
        """The message, with its properties and options; after `proceed` with its message id."""
        self.session: Session = session
        """The session that sends it (coroutines)."""
        self.is_reply: bool = is_reply
        """Whether the message is a handler's reply."""

    @property
    def properties(self) -> MessageProperties:
        """The message's properties; read-only if it is a received message that is sent on."""
        return self.message.properties

    @property
    def listener_id(self) -> str | None:
        """The listener whose handler sends it; None outside of handlers."""
        worker = current_worker.get()
        return None if worker is None else worker.listener_id

    def set_property(self, name: str, value: object) -> None:
        """Set a property, even of a received message that is sent on unchanged.

        Raises:
            ValueError: the name is not a valid property name.
            MessageFormatException: the value has a type that JMS does not know.
        """
        message = self.message
        if message.read_only_properties:
            kept = dict(message.property_values())
            message.clear_properties()
            message.property_values().update(kept)
        message.properties[name] = value

    def __repr__(self) -> str:
        return f"<SendInvocation to {self.destination}: {self.message!r}>"


class ReceiveInvocation:
    """One receive of a template, as interceptors see it."""

    __slots__ = ("destination", "message", "session")

    def __init__(self, destination: Destination, session: Session) -> None:
        self.destination: Destination = destination
        """The destination from which it receives."""
        self.message: Message | None = None
        """After `proceed`: the message, or None if none arrived in time."""
        self.session: Session = session
        """The session that receives (coroutines)."""

    def __repr__(self) -> str:
        return f"<ReceiveInvocation from {self.destination}: {self.message!r}>"


class ReceiveInterceptor(Protocol):
    """Surrounds receives of a template: an `async def`, or a `def` that may block."""

    def __call__(self, invocation: ReceiveInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `proceed()`, whose result is None."""


class SendInterceptor(Protocol):
    """Surrounds sends: an `async def`, or a `def` that may block."""

    def __call__(self, invocation: SendInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `proceed()`, whose result is None."""


def in_order(interceptors: Iterable[_I]) -> tuple[_I, ...]:
    """Return the interceptors, outermost first."""
    found = list(interceptors)
    for interceptor in found:
        _check(interceptor)
    return tuple(sorted(found, key=lambda interceptor: getattr(interceptor, "order", 0)))


class InterceptorChain(Generic[_I]):
    """Sorted interceptors that can be called as a chain."""

    __slots__ = ("_needs_thread", "_steps", "interceptors")

    def __init__(self, interceptors: Iterable[_I] = ()) -> None:
        """Sort the interceptors."""
        self.interceptors: tuple[_I, ...] = in_order(interceptors)
        self._steps: list[tuple[Any, bool]] = [
            (each, is_coroutine_function(each)) for each in reversed(self.interceptors)
        ]
        self._needs_thread = not all(is_async for _, is_async in self._steps)

    async def around_handler(self, invocation: object, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call `call` through the chain in a consumer's task; return the outermost result."""
        worker = current_worker.get()
        if worker is not None:
            call = partial(_call_in_context, worker, call)
        return await self._proceed(invocation, call, worker)

    async def around_operation(self, invocation: object, call: Callable[[], Awaitable[Any]]) -> Any:
        """Call `call` through the chain; `def` interceptors run in a thread for this call."""
        if not self._needs_thread:
            return await self._proceed(invocation, call, None)
        outer = current_worker.get()
        worker = Worker("pyjms interceptors", None if outer is None else outer.listener_id)
        try:
            return await self._proceed(invocation, call, worker)
        finally:
            worker.close()

    def _proceed(
        self, invocation: object, call: Callable[[], Awaitable[Any]], worker: Worker | None
    ) -> Awaitable[Any]:
        proceed = call
        for interceptor, is_async in self._steps:
            if is_async:
                proceed = partial(interceptor, invocation, proceed)
            else:
                assert worker is not None, "a def interceptor needs a thread"
                proceed = partial(_in_thread, worker, interceptor, invocation, proceed)
        return proceed()


def chain_of(interceptors: Iterable[_I]) -> InterceptorChain[_I] | None:
    """Return the chain of these interceptors, or None if there are none."""
    chain = InterceptorChain(interceptors)
    return chain if chain.interceptors else None


class Interceptors(TypedProperty[tuple[_I, ...]]):
    """A property of interceptors, outermost first, which is set to any iterable of them.

    Setting it builds the chain.

    Args:
        chain: the name of the attribute with the chain; None as its value: no interceptors.
        doc: the docstring.
    """

    def __init__(self, chain: str, doc: str) -> None:
        super().__init__(self._read, self._write, doc=doc)
        self._chain = chain

    def _read(self, instance: object) -> tuple[_I, ...]:
        chain: InterceptorChain[_I] | None = getattr(instance, self._chain)
        return () if chain is None else chain.interceptors

    def _write(self, instance: object, value: Iterable[_I]) -> None:
        setattr(instance, self._chain, chain_of(value))

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: Iterable[_I]) -> None: ...


async def _call_in_context(worker: Worker, call: Callable[[], Awaitable[Any]]) -> Any:
    """Call, and keep the context variables that the interceptors have set around the call."""
    worker.call_context = copy_context()
    return await call()


async def _in_thread(
    worker: Worker,
    interceptor: Callable[..., Any],
    invocation: object,
    proceed: Callable[[], Awaitable[Any]],
) -> Any:
    result = await worker.run_around(interceptor, invocation, proceed)
    if inspect.isawaitable(result):  # a lambda or a wrapper around a coroutine function
        return await result
    return result


def is_coroutine_function(function: object) -> bool:
    """Return whether a function, or an object's `__call__`, is a coroutine function."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is wanted
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _check(interceptor: object) -> None:
    name = getattr(interceptor, "__qualname__", None) or repr(interceptor)
    hint = "write: async def name(invocation, proceed): return await proceed()"
    if isinstance(interceptor, type):
        raise ConfigurationException(
            f"Interceptor {name} is a class", hint=f"pass an instance: {interceptor.__name__}(...)"
        )
    if not callable(interceptor):
        raise ConfigurationException(f"Interceptor {name} cannot be called", hint=hint)
    try:
        inspect.signature(interceptor).bind(None, None)
    except TypeError as error:
        raise ConfigurationException(
            f"Interceptor {name} does not take (invocation, proceed): {error}", hint=hint
        ) from error
    except ValueError:  # a builtin without a signature
        return


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
    """The end of a delivery: its settlement by a container, or its rollback."""

    operation: Literal["commit", "ack", "rollback"]
    """Whether the session's transaction is committed, or the message acknowledged, after the
    handler has returned; or the delivery is rolled back, for another one or a dead letter."""
    listener_id: str | None
    """The listener's id; None for a container without a `bean_name`."""
    message: Message
    """The message; for a batch, the last one."""
    dead_letters: int = 0
    """How many messages of the delivery become dead letters with this operation."""
    context: Context | None = None
    """The context variables that were set around the handler; None: it was not called."""


class SettlementInterceptor(Protocol):
    """Surrounds commits, acknowledgements, rollbacks: an `async def`, or a `def` that may block."""

    def __call__(self, invocation: SettlementInvocation, proceed: Proceed, /) -> object:
        """Do something before and after `proceed()`, which raises if the settlement fails."""
