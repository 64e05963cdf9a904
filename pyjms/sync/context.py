"""The simplified API of JMS 2.0, blocking: context, producer and consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from pyjms._wakeup import LoopHandle
from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.jms import api
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.jms.properties import MessageProperties
from pyjms.sync.attributes import Attribute, ReadOnly, forwarding
from pyjms.sync.closing import CloseableFacade, CompletionThread, ThreadedListener
from pyjms.sync.facade import Facade, SessionPart, blocking, blocking_as, like
from pyjms.sync.session import MessageConsumer, Session, SessionOperations
from pyjms.sync.tracebacks import trim

__all__ = ["JMSConsumer", "JMSContext", "JMSProducer"]

T = TypeVar("T")
F = TypeVar("F")
P = ParamSpec("P")


def _chained(
    function: Callable[Concatenate[api.JMSProducer, P], api.JMSProducer],
) -> Callable[Concatenate[F, P], F]:
    """Return a setter that calls the core's setter and returns the blocking object."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        getattr(self.core, function.__name__)(*args, **kwargs)
        return self

    return like(function, call)


class JMSProducer(SessionPart[api.JMSProducer]):
    """Sends messages with the settings made here, which can be chained. JMS 2.0: JMSProducer.

        context.create_producer().set_priority(7).set_property("n", 1).send(queue, "text")

    For one thread at a time. It need not be closed.
    """

    __slots__ = ("_completions",)

    _completions: CompletionThread

    delivery_mode: Attribute[DeliveryMode] = Attribute("PERSISTENT unless set.")
    priority: Attribute[int] = Attribute("The priority, 0 to 9; 4 unless set.")
    time_to_live: Attribute[float] = Attribute("Seconds; 0: messages never expire.")
    delivery_delay: Attribute[float] = Attribute(
        "Seconds before the broker's scheduler delivers; 0: at once."
    )
    disable_message_id: Attribute[bool] = Attribute("A hint that message ids are not needed.")
    disable_message_timestamp: Attribute[bool] = Attribute(
        "Whether messages are sent without a timestamp."
    )
    properties: Final = ReadOnly[MessageProperties]("The properties that are set on every message.")
    correlation_id: Final = ReadOnly[str | None]("The correlation id of every message.")
    reply_to: Final = ReadOnly[Destination | None]("The destination for replies.")
    type: Final = ReadOnly[str | None]("The type of every message.")

    set_delivery_mode: Final = _chained(api.JMSProducer.set_delivery_mode)
    set_priority: Final = _chained(api.JMSProducer.set_priority)
    set_time_to_live: Final = _chained(api.JMSProducer.set_time_to_live)
    set_delivery_delay: Final = _chained(api.JMSProducer.set_delivery_delay)
    set_disable_message_id: Final = _chained(api.JMSProducer.set_disable_message_id)
    set_disable_message_timestamp: Final = _chained(api.JMSProducer.set_disable_message_timestamp)
    set_property: Final = _chained(api.JMSProducer.set_property)
    clear_properties: Final = _chained(api.JMSProducer.clear_properties)
    set_correlation_id: Final = _chained(api.JMSProducer.set_correlation_id)
    set_reply_to: Final = _chained(api.JMSProducer.set_reply_to)
    set_type: Final = _chained(api.JMSProducer.set_type)
    property_exists: Final = forwarding(api.JMSProducer.property_exists)

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core; the object's completion thread ends with the context."""
        super().attach(core, loop, owner)
        assert isinstance(owner, CloseableFacade)
        self._completions = CompletionThread(core, owner.threads, self.guard)

    @property
    def async_(self) -> api.CompletionListener | None:
        """Called in a thread with the outcome of each send, which then does not wait."""
        given = self.core.async_
        return given.listener if isinstance(given, ThreadedListener) else given

    def set_async(self, listener: api.CompletionListener | None) -> Self:
        """Send asynchronously, with `listener` called for each outcome; None: synchronously."""
        threaded = None if listener is None else ThreadedListener(listener, self._completions)
        self.core.set_async(threaded)
        return self

    def send(self, destination: Destination, body: object) -> Self:
        """Send a message, or a message with this body. Blocks; see `pyjms.aio.JMSProducer.send`."""
        try:
            self.call(self.core.send, destination, body)
        except Exception as error:
            trim(error)
            raise
        return self


class JMSConsumer(MessageConsumer):
    """Receives messages, or their bodies. For one thread at a time. JMS 2.0: JMSConsumer."""

    __slots__ = ("_bodies",)

    core: api.JMSConsumer
    _bodies: deque[tuple[Any, Any]]

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core."""
        super().attach(core, loop, owner)
        self._bodies = deque()

    def receive_body(self, kind: type[T], timeout: float | None = None) -> T | None:
        """Wait for the next message and return its body as `kind`. Blocks. JMS: receiveBody.

        In the modes AUTO and DUPS_OK, a message that cannot be read as `kind` stays unacknowledged,
        and the next receive returns it. Interrupting the wait (Ctrl-C) loses no body of this kind.

        Args:
            kind: str, dict, bytes, a base class of these, or a type that the message converter
                supports.
            timeout: seconds; None waits for ever, 0 does not wait.

        Raises:
            MessageFormatException: the body is not a `kind`, or the message cannot have one.
            JMSException: as for `receive`.
        """
        if self._bodies and self._bodies[0][0] is kind:
            return cast("T", self._bodies.popleft()[1])

        def keep(body: T | None) -> None:
            if body is not None:
                self._bodies.append((kind, body))

        try:
            return self.call(self.core.receive_body, kind, timeout, keep=keep)
        except Exception as error:
            trim(error)
            raise

    def receive_body_no_wait(self, kind: type[T]) -> T | None:
        """Return the body of a message that has already arrived, or None."""
        return self.receive_body(kind, 0)


class JMSContext(SessionOperations[api.JMSContext], CloseableFacade[api.JMSContext]):
    """A connection and a session. JMS 2.0: JMSContext; `pyjms.aio.JMSContext` describes it.

    For one thread at a time, except `close`. `with` closes it.
    """

    __slots__ = ()

    auto_start: Attribute[bool] = Attribute("Whether creating a consumer starts the connection.")
    client_id: Final = ReadOnly[str | None]("The client id of the connection.")
    metadata: Final = ReadOnly[ConnectionMetaData]("Versions and names of the provider.")
    session_mode: Final = ReadOnly[AcknowledgeMode]("How messages are acknowledged.")
    transacted: Final = ReadOnly[bool]("Whether work is done in transactions.")
    exception_listener: Attribute[api.ExceptionListener | None] = Attribute(
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )

    set_client_id: Final = blocking(api.JMSContext.set_client_id)
    start: Final = blocking(api.JMSContext.start)
    stop: Final = blocking(api.JMSContext.stop)
    session: Final = blocking_as(lambda: Session, api.JMSContext.session)
    acknowledge: Final = blocking(api.JMSContext.acknowledge)
    create_consumer: Final = blocking_as(lambda: JMSConsumer, api.JMSContext.create_consumer)
    create_durable_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_durable_consumer
    )
    create_shared_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_shared_consumer
    )
    create_shared_durable_consumer: Final = blocking_as(
        lambda: JMSConsumer, api.JMSContext.create_shared_durable_consumer
    )
    create_map_message: Final = forwarding(api.JMSContext.create_map_message)

    def create_context(self, session_mode: SessionMode) -> JMSContext:
        """Create a context with a new session on the same connection. Blocks.

        The connection is closed with the last of its contexts.

        Raises:
            IllegalStateException: this context is closed.
            JMSException: the session mode is unknown.
        """
        core = self.call(self.core.create_context, session_mode)
        return JMSContext.of(core, self.loop)  # its threads outlive this context

    def create_producer(self) -> JMSProducer:
        """Return a producer with its own settings. Does not block.

        Raises:
            IllegalStateException: the context is closed.
        """
        return JMSProducer.of(self.core.create_producer(), self.loop, self)
