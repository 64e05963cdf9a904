"""Blocking session, producer, consumer and browser.

Listeners set here are plain functions; they run in a thread of their own, one a session,
so that they may block. `receive` that is interrupted (Ctrl-C) loses no message: what
came at that very moment is what the next `receive` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Self

from pyjms._wakeup import LoopHandle
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.jms import api
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message
from pyjms.sync.closing import BlockingListener, CloseableFace
from pyjms.sync.facade import Facade, blocking, blocking_as
from pyjms.sync.portal import call_on_loop

__all__ = ["MessageConsumer", "MessageProducer", "QueueBrowser", "Session"]


class MessageProducer(CloseableFace[api.MessageProducer]):
    """Sends messages; the attributes are what `send` uses unless told otherwise."""

    send = blocking(api.MessageProducer.send)

    @property
    def destination(self) -> Destination | None:
        """Where this producer sends; None: wherever each send says."""
        return self.core.destination

    @property
    def delivery_mode(self) -> DeliveryMode:
        """PERSISTENT unless set."""
        return self.core.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: DeliveryMode) -> None:
        self.core.delivery_mode = value

    @property
    def priority(self) -> int:
        """0 to 9; 4 unless set."""
        return self.core.priority

    @priority.setter
    def priority(self, value: int) -> None:
        self.core.priority = value

    @property
    def time_to_live(self) -> float:
        """Seconds; 0 is for ever."""
        return self.core.time_to_live

    @time_to_live.setter
    def time_to_live(self, value: float) -> None:
        self.core.time_to_live = value

    @property
    def disable_message_id(self) -> bool:
        """A hint that ids are not needed."""
        return self.core.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self.core.disable_message_id = value

    @property
    def disable_message_timestamp(self) -> bool:
        """Whether messages go without a timestamp."""
        return self.core.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self.core.disable_message_timestamp = value


class MessageConsumer(CloseableFace[api.MessageConsumer]):
    """Receives messages."""

    _kept: deque[Message | None]

    @classmethod
    def of(
        cls, core: Any, loop: LoopHandle | None = None, owner: Facade[Any] | None = None
    ) -> Self:
        face = super().of(core, loop, owner)
        face._kept = deque()
        return face

    @property
    def destination(self) -> Destination:
        """What it listens to."""
        return self.core.destination

    @property
    def message_selector(self) -> str | None:
        """The selector, or None."""
        return self.core.message_selector

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass.

        Raises:
            IllegalStateException: the consumer is closed, or the session has a listener.

        """
        while self._kept:
            if (kept := self._kept.popleft()) is not None:
                return kept
        return call_on_loop(self._loop, self.core.receive, timeout, keep=self._kept.append)

    def receive_no_wait(self) -> Message | None:
        """Return a message that is there already, or None."""
        return self.receive(0)

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Have `listener` called with each message, in a thread that ends with the consumer."""
        self._listen(self.core, listener)

    def __iter__(self) -> Iterator[Message]:
        """Receive for ever; ends when the consumer is closed."""
        while (message := self.receive()) is not None:
            yield message


class QueueBrowser(CloseableFace[api.QueueBrowser]):
    """Looks at the messages of a queue and leaves them there: `for m in browser`."""

    @property
    def queue(self) -> Queue:
        """What it looks at."""
        return self.core.queue

    @property
    def message_selector(self) -> str | None:
        """The selector, or None."""
        return self.core.message_selector

    def __iter__(self) -> Iterator[Message]:
        messages = aiter(self.core)
        while True:
            message = call_on_loop(self._loop, _next_or_none, messages)
            if message is None:
                return
            yield message


class Session(CloseableFace[api.Session]):
    """One unit of order, acknowledgement and transaction; for one thread at a time."""

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
        """Whether work waits for `commit`."""
        return self.core.transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """When received messages count as done."""
        return self.core.acknowledge_mode

    def create_queue(self, name: str) -> Queue:
        """A handle; nothing is asked of the broker."""
        return self.core.create_queue(name)

    def create_topic(self, name: str) -> Topic:
        """A handle; nothing is asked of the broker."""
        return self.core.create_topic(name)

    def create_message(self) -> Message:
        """A message without a body."""
        return self.core.create_message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """A message of text."""
        return self.core.create_text_message(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        """A message of bytes."""
        return self.core.create_bytes_message(data)

    def create_map_message(self) -> MapMessage:
        """A message of names and values."""
        return self.core.create_map_message()

    def create_stream_message(self) -> StreamMessage:
        """A message of values in a row."""
        return self.core.create_stream_message()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        """A message with an object that Java has serialized."""
        return self.core.create_object_message(data)

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Have `listener` called with each message of the session, in a thread of its own."""
        self._listen(self.core, listener)


async def _next_or_none(messages: Any) -> Message | None:
    return await anext(messages, None)
