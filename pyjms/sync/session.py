"""Session, producer, consumer and browser of the blocking API.

Listeners set here are plain functions, called in a separate thread, so that they may block.
A `receive` that is interrupted (Ctrl-C) loses no message: a message that arrives at the same moment
is returned by the next `receive`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

from pyjms._wakeup import LoopHandle
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.jms import api
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.jms.transaction.synchronization import Synchronization
from pyjms.management.jms_stats import JMSConsumerStats, JMSProducerStats, JMSSessionStats
from pyjms.sync.attributes import Attribute, ReadOnly, forwarding
from pyjms.sync.callbacks.synchronizations import SynchronizationInThread
from pyjms.sync.closing import (
    CloseableFacade,
    CompletionThread,
    ListeningFacade,
    Measured,
    ThreadedCallback,
    ThreadedListener,
    TransformerAttribute,
)
from pyjms.sync.facade import Facade, SessionPart, blocking, blocking_as, implemented_by, like
from pyjms.sync.portal import call_on_loop
from pyjms.sync.tracebacks import trim

__all__ = ["MessageConsumer", "MessageProducer", "QueueBrowser", "Session"]

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
_S_co = TypeVar("_S_co", bound=api.SessionOperations, covariant=True)


def _sending(
    function: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return the blocking method for `MessageProducer.send`, with listeners in a thread.

    Its class has `in_thread` and `callback_in_thread`, which return the listeners for the core.
    """
    call = blocking(function)

    def send(self: Any, /, *args: Any, **kwargs: Any) -> R:
        if len(args) > _BEFORE_CALLBACK:
            kwargs["callback"] = args[_BEFORE_CALLBACK]
            args = args[:_BEFORE_CALLBACK]
        listener, callback = kwargs.get("completion_listener"), kwargs.get("callback")
        if listener is not None:
            kwargs["completion_listener"] = self.in_thread(listener)
        if callback is not None:
            kwargs["callback"] = self.callback_in_thread(callback)
        return call(self, *args, **kwargs)

    return like(function, cast("Callable[Concatenate[Any, P], R]", send))


_BEFORE_CALLBACK: Final = 2
"""Arguments of `send` before the callback: destination and message."""


class MessageProducer(SessionPart[api.MessageProducer], CloseableFacade[api.MessageProducer]):
    """Sends messages; its attributes are the defaults of `send`. JMS: MessageProducer."""

    __slots__ = ("_completions",)

    _completions: CompletionThread

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core and its loop."""
        super().attach(core, loop, owner)
        self._completions = CompletionThread(core, self.threads, self.guard)

    def in_thread(self, listener: api.CompletionListener) -> api.CompletionListener:
        """Return a wrapper that calls `listener` in the thread of the completion listeners."""
        return ThreadedListener(listener, self._completions)

    def callback_in_thread(self, callback: api.AsyncCallback) -> api.AsyncCallback:
        """Return a wrapper that calls `callback` in the thread of the completion listeners."""
        return ThreadedCallback(callback, self._completions)

    send: Final = _sending(api.MessageProducer.send)

    destination: Final = ReadOnly[Destination | None]("The destination; None: a send specifies it.")
    delivery_mode: Attribute[DeliveryMode] = Attribute(
        "The default delivery mode; PERSISTENT unless set."
    )
    priority: Attribute[int] = Attribute("The default priority, 0 to 9; 4 unless set.")
    time_to_live: Attribute[float] = Attribute(
        "The default time to live in seconds; 0: messages never expire."
    )
    delivery_delay: Attribute[float] = Attribute(
        "Seconds before messages are delivered (delivery delay); 0: immediately."
    )
    send_timeout: Attribute[float | None] = Attribute(
        "Seconds that each send waits for the broker's response; None: no limit."
    )
    transformer: TransformerAttribute = TransformerAttribute(
        "Transforms messages that are sent; called on the loop, it must not block."
    )
    stats: Final = Measured[JMSProducerStats]()
    disable_message_id: Attribute[bool] = Attribute("A hint that message ids are not needed.")
    disable_message_timestamp: Attribute[bool] = Attribute(
        "Whether messages are sent without a timestamp."
    )


class MessageConsumer(SessionPart[api.MessageConsumer], ListeningFacade[api.MessageConsumer]):
    """Receives messages. For one thread at a time. JMS: MessageConsumer."""

    __slots__ = ("_available_listener", "_interrupted")

    _available_listener: Callable[[MessageConsumer], object] | None
    _interrupted: deque[Message | None]

    destination: Final = ReadOnly[Destination]("The destination from which messages are received.")
    message_selector: Final = ReadOnly[str | None]("The selector; None for all messages.")
    transformer: TransformerAttribute = TransformerAttribute(
        "Transforms messages that are delivered; called on the loop, it must not block."
    )
    stats: Final = Measured[JMSConsumerStats]()
    is_closed: Final = ReadOnly[bool]("Whether the consumer is closed.")

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core and its loop."""
        super().attach(core, loop, owner)
        self._available_listener = None
        self._interrupted = deque()

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None after `timeout` seconds. Blocks.

        Interrupting the wait (Ctrl-C) loses no message. JMS: MessageConsumer.receive(timeout), in
        which 0 means no limit; here None means no limit, and 0 is receiveNoWait().

        Raises:
            IllegalStateException: the consumer is closed, or the session has a listener.
            ConnectionFailedException: the connection has failed.
        """
        while self._interrupted:
            if (message := self._interrupted.popleft()) is not None:
                return message
        try:
            return self.call(self.core.receive, timeout, keep=self._interrupted.append)
        except Exception as error:
            trim(error)
            raise

    def receive_no_wait(self) -> Message | None:
        """Return a message that has arrived already, or None."""
        return self.receive(0)

    @property
    def message_available_listener(self) -> Callable[[MessageConsumer], object] | None:
        """The listener for available messages that was set on this object; None: there is none."""
        return self._available_listener

    def set_message_available_listener(
        self, listener: Callable[[MessageConsumer], object] | None
    ) -> None:
        """Set a function that is called with this consumer when a message can be received.

        It is called in a thread, once for each message that arrives, unless the message was already
        received. It may call `receive(0)`, which may still return None, for example if the message
        has expired. None removes it. Blocks. ActiveMQ: MessageAvailableConsumer.

        Raises:
            IllegalStateException: the consumer is closed, or its session has a message listener.
            JMSException: the consumer has no prefetch, so messages arrive only on request.
            UnsupportedOperationException: the provider has no such listeners.
        """

        def call(_: api.MessageConsumer) -> object:
            assert listener is not None
            return listener(self)

        self._set_listener(
            self.core.set_message_available_listener,
            None if listener is None else call,
            self._available_listener,
        )
        self._available_listener = listener

    def __iter__(self) -> Iterator[Message]:
        """Receive messages until the consumer is closed."""
        while (message := self.receive()) is not None:
            yield message


class QueueBrowser(SessionPart[api.QueueBrowser], CloseableFacade[api.QueueBrowser]):
    """Iterates over the messages of a queue without removing them. JMS: QueueBrowser."""

    __slots__ = ()

    queue: Final = ReadOnly[Queue]("The browsed queue.")
    message_selector: Final = ReadOnly[str | None]("The selector; None for all messages.")

    def __iter__(self) -> Iterator[Message]:
        messages = aiter(self.core)
        while True:
            message = self.call(_next_or_none, messages)
            if message is None:
                return
            yield message


class SessionOperations(SessionPart[_S_co], Generic[_S_co]):
    """What sessions and contexts have in common."""

    __slots__ = ()

    create_browser: Final = blocking_as(lambda: QueueBrowser, api.SessionOperations.create_browser)
    create_temporary_queue: Final = blocking(api.SessionOperations.create_temporary_queue)
    create_temporary_topic: Final = blocking(api.SessionOperations.create_temporary_topic)
    delete_temporary: Final = blocking(api.SessionOperations.delete_temporary)
    unsubscribe: Final = blocking(api.SessionOperations.unsubscribe)
    commit: Final = blocking(api.SessionOperations.commit)
    rollback: Final = blocking(api.SessionOperations.rollback)
    recover: Final = blocking(api.SessionOperations.recover)

    create_queue: Final = forwarding(api.SessionOperations.create_queue)
    create_topic: Final = forwarding(api.SessionOperations.create_topic)
    create_message: Final = forwarding(api.SessionOperations.create_message)
    create_text_message: Final = forwarding(api.SessionOperations.create_text_message)
    create_bytes_message: Final = forwarding(api.SessionOperations.create_bytes_message)
    create_stream_message: Final = forwarding(api.SessionOperations.create_stream_message)
    create_object_message: Final = forwarding(api.SessionOperations.create_object_message)


class Session(SessionOperations[api.Session], ListeningFacade[api.Session]):
    """The context of order, acknowledgement and transactions. JMS: Session.

    For one thread at a time, except `close`: a call during another thread's call raises
    IllegalStateException, which names both threads. Listeners, and synchronizations for which a
    call waits, may use the session that calls them.
    """

    __slots__ = ()

    create_producer: Final = blocking_as(lambda: MessageProducer, api.Session.create_producer)
    create_consumer: Final = blocking_as(lambda: MessageConsumer, api.Session.create_consumer)

    @implemented_by(blocking_as(lambda: MessageConsumer, api.Session.create_durable_subscriber))
    def create_durable_subscriber(self) -> None:
        """Create the consumer of a durable subscription."""

    create_shared_consumer: Final = blocking_as(
        lambda: MessageConsumer, api.Session.create_shared_consumer
    )
    create_shared_durable_consumer: Final = blocking_as(
        lambda: MessageConsumer, api.Session.create_shared_durable_consumer
    )
    wait_for_completions: Final = blocking(api.Session.wait_for_completions)

    transacted: Final = ReadOnly[bool](
        "Whether the session is transacted: `commit` or `rollback` ends each transaction."
    )
    acknowledge_mode: Final = ReadOnly[AcknowledgeMode]("The acknowledge mode.")

    transformer: TransformerAttribute = TransformerAttribute(
        "The message transformer of new producers and consumers."
    )
    stats: Final = Measured[JMSSessionStats]()

    create_map_message: Final = forwarding(api.Session.create_map_message)
    create_blob_message: Final = forwarding(api.Session.create_blob_message)

    set_local_transaction_event_listener: Final = forwarding(
        api.Session.set_local_transaction_event_listener
    )

    def add_synchronization(self, synchronization: Synchronization) -> None:
        """Register callbacks for the end of the session's transaction, called in a thread.

        Its methods are plain functions and may use the session; `commit` and `rollback` wait for
        them. A transacted session without a transaction begins one.

        Raises:
            IllegalStateException: the session is closed or not transacted.
            JMSException: an XA session is not associated with a branch.
        """
        self.call(_add_synchronization, self.core, SynchronizationInThread(synchronization))

    def run(self) -> None:
        """Deliver the consumers' buffered messages to the session's listener. Blocks.

        Called by the pool of a connection consumer, in a thread. Meanwhile only the listener may
        use the session. JMS: Session.run (JMS 1.1 section 8.2.4).

        Raises:
            IllegalStateException: the session is closed, has no listener, or the listener is
                running.
        """
        call_on_loop(self.loop, self.core.run)


async def _add_synchronization(session: api.Session, synchronization: Synchronization) -> None:
    session.add_synchronization(synchronization)


async def _next_or_none(messages: Any) -> Message | None:
    return await anext(messages, None)
