"""Handles: one use of a connection, session or producer that is shared, cached or pooled.

Closing a handle returns what it refers to, which stays open for the next use.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import (
    AsyncCallback,
    Closeable,
    CompletionListener,
    Connection,
    ExceptionListener,
    MessageListener,
    MessageProducer,
    MessageTransformer,
    Session,
)
from pyjms.jms.api.delegating import DelegatingSession
from pyjms.jms.api.endpoints import destination_first
from pyjms.jms.destination import Destination
from pyjms.jms.domain import QueueConnection, TopicConnection
from pyjms.jms.message import Message
from pyjms.jms.synchronization import LocalTransactionEventListener
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.template.closing import called_back
from pyjms.transport.openwire.correlator import InterruptionListener, InterruptionListeners


class _Kept(Protocol):
    @property
    def session(self) -> Session: ...


_K = TypeVar("_K", bound=_Kept)


class SessionHandle(DelegatingSession, Generic[_K]):
    """Uses the session of `kept` until `close`, which cleans it up and returns it."""

    def __init__(self, kept: _K) -> None:
        self._kept: _K | None = kept
        self._listening = False
        self._observing = False

    def _use(self) -> _K:
        """Return the entry in use.

        Raises:
            IllegalStateException: the handle is closed.
        """
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._kept

    def _use_for_work(self) -> _K:
        """Return the entry in use, for a call after which a cleanup may be needed."""
        return self._use()

    def _target(self) -> Session:
        return self._use().session

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the session's listener; `close` removes it."""
        await self._use_for_work().session.set_message_listener(listener)
        self._listening = listener is not None

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        """Set the session's transaction listener; `close` removes it."""
        self._use_for_work().session.set_local_transaction_event_listener(listener)
        self._observing = listener is not None

    async def close(self) -> None:
        """Clean the session up and return it; close it if that fails.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if self._kept is None:
            return
        try:
            await called_back(self._kept.session)
        except IllegalStateException:
            raise
        except BaseException as error:  # cancelled, or the broker does not respond
            await self._discard(self._take(), error)
            return
        kept = self._take()
        if kept is None:
            return  # another task has closed it
        try:
            await self._clean(kept)
        except BaseException as error:
            await self._discard(kept, error)
        else:
            await self._put_back(kept)

    def _take(self) -> _K | None:
        """Take over the entry in use; return None if another call has taken it."""
        kept, self._kept = self._kept, None
        return kept

    @abstractmethod
    async def _clean(self, kept: _K) -> None:
        """Close the objects that this use has left open; roll back."""

    @abstractmethod
    async def _put_back(self, kept: _K) -> None:
        """Return a clean session."""

    @abstractmethod
    async def _discard(self, kept: _K | None, error: BaseException) -> None:
        """Close a session that could not be cleaned up; raise `error` if the caller needs it."""


Forget = Callable[[Closeable], None]
"""Called with a handle that is closed."""


class ProducerHandle(MessageProducer):
    """Sends through `target` with the handle's quality of service; `close` calls `forget`."""

    def __init__(self, target: MessageProducer, forget: Forget) -> None:
        self.target = target
        self._forget = forget
        self._closed = False
        self.delivery_mode: DeliveryMode = target.delivery_mode
        self.priority: int = target.priority
        self.time_to_live: float = target.time_to_live

    # extensions of ActiveMQ, if the target has them
    stats: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute(
        attrgetter("target"), read_only=True
    )

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> None:
        """Send through the target, by default with the settings of this handle."""
        if self._closed:
            raise IllegalStateException("The producer is closed")
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        only_of_activemq: dict[str, Any] = {} if callback is None else {"callback": callback}
        await self.target.send(
            message,
            destination=self._admit(destination, delivery_delay, completion_listener),
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
            # a JMS 1.1 pool refuses even 0
            delivery_delay=(self.delivery_delay if delivery_delay is None else delivery_delay)
            or None,
            completion_listener=completion_listener,
            **only_of_activemq,
        )

    @abstractmethod
    def _admit(
        self,
        destination: Destination | None,
        delivery_delay: float | None,
        completion_listener: CompletionListener | None,
        /,
    ) -> Destination | None:
        """Check a send; return the destination to pass to the target.

        Raises:
            IllegalStateException: the handle, or its session, is closed.
            UnsupportedOperationException: this handle does not support the arguments.
        """

    async def close(self) -> None:
        """Close the handle, not the target. Idempotent."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            await self._release()

    @abstractmethod
    async def _release(self) -> None:
        """Restore the target's settings."""


class SharedInterruptions(InterruptionListeners):
    """The transport listeners of all handles on one connection, or on those that replace it."""

    def watch(self, connection: Connection) -> None:
        """Listen to the interruptions of `connection`, if it reports any."""
        add = getattr(connection, "add_transport_listener", None)  # JMS has no such method
        if add is not None:
            add(self)


class TransportListening:
    """A handle on a shared connection, with transport listeners of its own."""

    def __init__(self, interruptions: SharedInterruptions) -> None:
        self._interruptions = interruptions
        self._transport_listeners: list[InterruptionListener] = []

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport loses or finds a broker.

        The calls are made on the event loop and must not block; they end when this handle is
        closed. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)
        self._transport_listeners.append(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Stop calling `listener`. ActiveMQ: removeTransportListener."""
        if listener in self._transport_listeners:
            self._transport_listeners.remove(listener)
            self._interruptions.remove(listener)

    def _drop_transport_listeners(self) -> None:
        while self._transport_listeners:
            self._interruptions.remove(self._transport_listeners.pop())


class ConnectionHandle(TransportListening, QueueConnection, TopicConnection):
    """A handle on a connection that has others, with listeners of its own until it is closed."""

    def __init__(
        self, exception_listeners: list[ExceptionListener], interruptions: SharedInterruptions
    ) -> None:
        """Add its listeners to those of all handles."""
        super().__init__(interruptions)
        self._exception_listeners = exception_listeners
        self._listener: ExceptionListener | None = None
        self._is_closed = False

    @abstractmethod
    def _provider(self) -> Connection | None:
        """Return the connection, if there is one; raise if the handle cannot be used."""

    @abstractmethod
    def _check_listener(self) -> None:
        """Raise if the handle cannot have an exception listener."""

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """The exception listener of this handle, in addition to those of other handles."""
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._check_listener()
        self._drop_exception_listener()
        self._listener = listener
        if listener is not None:
            self._exception_listeners.append(listener)

    @property
    def transformer(self) -> MessageTransformer | None:
        """The message transformer of the connection, which its target factory sets."""
        return getattr(self._provider(), "transformer", None)

    @property
    def stats(self) -> Any:
        """The connection's statistics; None unless `jms.statsEnabled` is set."""
        return getattr(self._provider(), "stats", None)

    def _drop_exception_listener(self) -> None:
        if self._listener is not None:
            self._exception_listeners.remove(self._listener)
            self._listener = None

    def _drop_listeners(self) -> None:
        """Stop calling the listeners of this handle: it is closed."""
        self._drop_exception_listener()
        self._drop_transport_listeners()
