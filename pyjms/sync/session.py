"""Session, producer, consumer and browser of the blocking API.

Listeners set here are plain functions, called in a thread of their own, so that they may block.
A `receive` that is interrupted (Ctrl-C) loses no message: one that arrived at that very moment is
returned by the next `receive`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from pyjms._wakeup import LoopHandle
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.jms import api
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.sync.attributes import Attribute, forwarding
from pyjms.sync.closing import BlockingListener, CloseableFacade
from pyjms.sync.facade import Facade, blocking, blocking_as
from pyjms.sync.portal import call_on_loop
from pyjms.sync.tracebacks import trim

__all__ = ["MessageConsumer", "MessageProducer", "QueueBrowser", "Session"]


class MessageProducer(CloseableFacade[api.MessageProducer]):
    """Sends messages; its attributes are the defaults of `send`. JMS: MessageProducer."""

    __slots__ = ()

    send = blocking(api.MessageProducer.send)

    destination = Attribute[Destination | None](
        "The destination; None: each send names one.", read_only=True
    )
    delivery_mode = Attribute[DeliveryMode]("The default delivery mode; PERSISTENT unless set.")
    priority = Attribute[int]("The default priority, 0 to 9; 4 unless set.")
    time_to_live = Attribute[float](
        "The default time to live in seconds; 0: messages never expire."
    )
    disable_message_id = Attribute[bool]("A hint that message ids are not needed.")
    disable_message_timestamp = Attribute[bool]("Whether messages are sent without a timestamp.")


class MessageConsumer(CloseableFacade[api.MessageConsumer]):
    """Receives messages. For one thread at a time. JMS: MessageConsumer."""

    __slots__ = ("_interrupted",)

    _interrupted: deque[Message | None]

    destination = Attribute[Destination](
        "The destination that messages are received from.", read_only=True
    )
    message_selector = Attribute[str | None]("The selector; None for all messages.", read_only=True)
    is_closed = Attribute[bool]("Whether the consumer is closed.", read_only=True)

    def attach(self, core: Any, loop: LoopHandle, owner: Facade[Any] | None) -> None:
        """Set what the object stands for."""
        super().attach(core, loop, owner)
        self._interrupted = deque()

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass. Blocks.

        Interrupting the wait (Ctrl-C) loses no message. JMS: MessageConsumer.receive(timeout),
        where 0 means for ever; here None does, and 0 is receiveNoWait().

        Raises:
            IllegalStateException: the consumer is closed, or the session has a listener.
            ConnectionFailedException: the connection has failed.
        """
        while self._interrupted:
            if (message := self._interrupted.popleft()) is not None:
                return message
        try:
            return call_on_loop(
                self.loop, self.core.receive, timeout, keep=self._interrupted.append
            )
        except Exception as error:
            trim(error)
            raise

    def receive_no_wait(self) -> Message | None:
        """Return a message that has arrived already, or None."""
        return self.receive(0)

    @property
    def message_listener(self) -> BlockingListener | None:
        """The listener that was set here; None: there is none."""
        return self.listener

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Have `listener` called with each message, in a thread; None: stop calling it."""
        self._set_listener(self.core, listener)

    def __iter__(self) -> Iterator[Message]:
        """Receive messages until the consumer is closed."""
        while (message := self.receive()) is not None:
            yield message


class QueueBrowser(CloseableFacade[api.QueueBrowser]):
    """Iterates over the messages of a queue, which stay there. JMS: QueueBrowser."""

    __slots__ = ()

    queue = Attribute[Queue]("The queue that is browsed.", read_only=True)
    message_selector = Attribute[str | None]("The selector; None for all messages.", read_only=True)

    def __iter__(self) -> Iterator[Message]:
        messages = aiter(self.core)
        while True:
            message = call_on_loop(self.loop, _next_or_none, messages)
            if message is None:
                return
            yield message


class Session(CloseableFacade[api.Session]):
    """A unit of order, acknowledgement and transaction. JMS: Session.

    For one thread at a time, except `close`.
    """

    __slots__ = ()

    create_producer = blocking_as(lambda: MessageProducer, api.Session.create_producer)
    create_consumer = blocking_as(lambda: MessageConsumer, api.Session.create_consumer)
    create_durable_subscriber = blocking_as(
        lambda: MessageConsumer, api.Session.create_durable_subscriber
    )
    create_browser = blocking_as(lambda: QueueBrowser, api.Session.create_browser)
    create_temporary_queue = blocking(api.Session.create_temporary_queue)
    create_temporary_topic = blocking(api.Session.create_temporary_topic)
    delete_temporary = blocking(api.Session.delete_temporary)
    unsubscribe = blocking(api.Session.unsubscribe)
    commit = blocking(api.Session.commit)
    rollback = blocking(api.Session.rollback)
    recover = blocking(api.Session.recover)

    transacted = Attribute[bool](
        "Whether work is done in transactions, ended by `commit` or `rollback`.", read_only=True
    )
    acknowledge_mode = Attribute[AcknowledgeMode](
        "When messages count as consumed.", read_only=True
    )

    create_queue = forwarding(api.Session.create_queue)
    create_topic = forwarding(api.Session.create_topic)
    create_message = forwarding(api.Session.create_message)
    create_text_message = forwarding(api.Session.create_text_message)
    create_bytes_message = forwarding(api.Session.create_bytes_message)
    create_map_message = forwarding(api.Session.create_map_message)
    create_stream_message = forwarding(api.Session.create_stream_message)
    create_object_message = forwarding(api.Session.create_object_message)

    @property
    def message_listener(self) -> BlockingListener | None:
        """The listener that was set here; None: there is none."""
        return self.listener

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Set the listener of the session, to be called in a thread; None: remove it."""
        self._set_listener(self.core, listener)


async def _next_or_none(messages: Any) -> Message | None:
    return await anext(messages, None)
