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
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message
from pyjms.sync.closing import BlockingListener, CloseableFacade
from pyjms.sync.facade import Facade, blocking, blocking_as
from pyjms.sync.portal import call_on_loop

__all__ = ["MessageConsumer", "MessageProducer", "QueueBrowser", "Session"]


class MessageProducer(CloseableFacade[api.MessageProducer]):
    """Sends messages; its attributes are the defaults of `send`. JMS: MessageProducer."""

    __slots__ = ()

    send = blocking(api.MessageProducer.send)

    @property
    def destination(self) -> Destination | None:
        """The destination; None: each send names one."""
        return self.core.destination

    @property
    def delivery_mode(self) -> DeliveryMode:
        """The default delivery mode; PERSISTENT unless set."""
        return self.core.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: DeliveryMode) -> None:
        self.core.delivery_mode = value

    @property
    def priority(self) -> int:
        """The default priority, 0 to 9; 4 unless set."""
        return self.core.priority

    @priority.setter
    def priority(self, value: int) -> None:
        self.core.priority = value

    @property
    def time_to_live(self) -> float:
        """The default time to live in seconds; 0: messages never expire."""
        return self.core.time_to_live

    @time_to_live.setter
    def time_to_live(self, value: float) -> None:
        self.core.time_to_live = value

    @property
    def disable_message_id(self) -> bool:
        """A hint that message ids are not needed."""
        return self.core.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self.core.disable_message_id = value

    @property
    def disable_message_timestamp(self) -> bool:
        """Whether messages are sent without a timestamp."""
        return self.core.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self.core.disable_message_timestamp = value


class MessageConsumer(CloseableFacade[api.MessageConsumer]):
    """Receives messages. For one thread at a time. JMS: MessageConsumer."""

    __slots__ = ("_interrupted",)

    _interrupted: deque[Message | None]

    def attach(self, core: Any, loop: LoopHandle, owner: Facade[Any] | None) -> None:
        """Set what the object stands for."""
        super().attach(core, loop, owner)
        self._interrupted = deque()

    @property
    def destination(self) -> Destination:
        """The destination that messages are received from."""
        return self.core.destination

    @property
    def message_selector(self) -> str | None:
        """The selector; None for all messages."""
        return self.core.message_selector

    @property
    def is_closed(self) -> bool:
        """Whether the consumer is closed."""
        return self.core.is_closed

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
        return call_on_loop(self.loop, self.core.receive, timeout, keep=self._interrupted.append)

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

    @property
    def queue(self) -> Queue:
        """The queue that is browsed."""
        return self.core.queue

    @property
    def message_selector(self) -> str | None:
        """The selector; None for all messages."""
        return self.core.message_selector

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

    @property
    def transacted(self) -> bool:
        """Whether work is done in transactions, ended by `commit` or `rollback`."""
        return self.core.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """When messages count as consumed."""
        return self.core.acknowledge_mode

    def create_queue(self, name: str) -> Queue:
        """Return a handle; does not involve the broker."""
        return self.core.create_queue(name)

    def create_topic(self, name: str) -> Topic:
        """Return a handle; does not involve the broker."""
        return self.core.create_topic(name)

    def create_message(self) -> Message:
        """Return a message without a body."""
        return self.core.create_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Return a message with a text."""
        return self.core.create_text_message(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """Return a message with bytes."""
        return self.core.create_bytes_message(data)

    def create_map_message(self) -> MapMessage:
        """Return a message with named values."""
        return self.core.create_map_message()

    def create_stream_message(self) -> StreamMessage:
        """Return a message with a sequence of values."""
        return self.core.create_stream_message()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        """Return a message with a serialized Java object, given as bytes."""
        return self.core.create_object_message(data)

    @property
    def message_listener(self) -> BlockingListener | None:
        """The listener that was set here; None: there is none."""
        return self.listener

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Set the listener of the session, to be called in a thread; None: remove it."""
        self._set_listener(self.core, listener)


async def _next_or_none(messages: Any) -> Message | None:
    return await anext(messages, None)
