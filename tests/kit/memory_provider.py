"""A JMS provider of the simplest kind: in memory, counting calls under their Java names.

Queues only, with transactions, one kind of selector (`name = 'text'`) and temporary queues.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, InvalidSelectorException
from pyjms.jms import api
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData

SELECTOR = re.compile(r"\s*(\w+)\s*=\s*'(.*)'\s*")


class MemoryProvider(api.ConnectionFactory):
    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.queues: dict[Destination, list[Message]] = {}
        self.connections: list[MemoryConnection] = []
        self.sent: list[tuple[Message, dict[str, Any]]] = []
        self.failures: dict[str, Exception] = {}
        self.credentials: list[tuple[str | None, str | None]] = []
        self.changed = anyio.Event()
        self.numbers = 0

    def count(self, call: str) -> None:
        self.calls[call] += 1
        if call in self.failures:
            raise self.failures[call]

    def texts(self, name: str) -> list[str | None]:
        return [m.text for m in self.queues.get(Queue(name), []) if isinstance(m, TextMessage)]

    def put(self, destination: Destination, message: Message, *, first: bool = False) -> None:
        line = self.queues.setdefault(destination, [])
        line.insert(0 if first else len(line), message)
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> api.Connection:
        self.count("ConnectionFactory.createConnection")
        self.credentials.append((user_name, password))
        self.connections.append(MemoryConnection(self))
        return self.connections[-1]


class MemoryConnection(api.Connection):
    def __init__(self, provider: MemoryProvider) -> None:
        self.provider = provider
        self.exception_listener = None
        self.id: str | None = None
        self.started = self.closed = False

    @property
    def client_id(self) -> str | None:
        return self.id

    async def set_client_id(self, client_id: str) -> None:
        self.id = client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        return ConnectionMetaData()

    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> api.Session:
        self.provider.count("Connection.createSession")
        mode = AcknowledgeMode.TRANSACTED if transacted else AcknowledgeMode(acknowledge_mode)
        return MemorySession(self, mode)

    async def start(self) -> None:
        self.provider.count("Connection.start")
        self.started = True

    async def stop(self) -> None:
        self.provider.count("Connection.stop")
        self.started = False

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.provider.count("Connection.close")
        self.closed = True


class MemorySession(api.Session):
    def __init__(self, connection: MemoryConnection, mode: AcknowledgeMode) -> None:
        self.connection = connection
        self.provider = connection.provider
        self.mode = mode
        self.unsent: list[tuple[Destination, Message]] = []
        self.received: list[tuple[Destination, Message]] = []
        self.acknowledged: list[str | None] = []
        self.listener: api.MessageListener | None = None

    @property
    def transacted(self) -> bool:
        return self.mode == AcknowledgeMode.TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self.mode

    def create_queue(self, name: str) -> Queue:
        self.provider.count("Session.createQueue")
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.provider.count("Session.createTopic")
        return Topic(name)

    def create_message(self) -> Message:
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        return BytesMessage(data)

    def create_map_message(self) -> MapMessage:
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        return StreamMessage()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        return ObjectMessage(data)

    async def create_temporary_queue(self) -> TemporaryQueue:
        self.provider.numbers += 1
        return TemporaryQueue(f"temp:{self.provider.numbers}")

    async def create_temporary_topic(self) -> TemporaryTopic:
        return TemporaryTopic("temp")

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        self.provider.count("TemporaryQueue.delete")
        self.provider.queues.pop(destination, None)

    async def create_producer(self, destination: Destination | None = None) -> api.MessageProducer:
        self.provider.count("Session.createProducer")
        return MemoryProducer(self, destination)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        self.provider.count("Session.createConsumer")
        return MemoryConsumer(self, destination, selector, no_local=no_local)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        self.provider.count("Session.createDurableSubscriber")
        return MemoryConsumer(self, topic, selector, no_local=no_local)

    async def create_browser(self, queue: Queue, selector: str | None = None) -> api.QueueBrowser:
        self.provider.count("Session.createBrowser")
        return MemoryBrowser(self, queue, selector)

    async def unsubscribe(self, name: str) -> None:
        self.provider.count("Session.unsubscribe")

    async def commit(self) -> None:
        self.provider.count("Session.commit")
        unsent, self.unsent = self.unsent, []
        for destination, message in unsent:
            self.provider.put(destination, message)
        self.received.clear()

    async def rollback(self) -> None:
        self.provider.count("Session.rollback")
        self.give_back()

    def give_back(self) -> None:
        self.unsent.clear()
        received, self.received = self.received, []
        for destination, message in reversed(received):
            message.redelivered = True
            message.delivery_count += 1
            self.provider.put(destination, message, first=True)

    async def recover(self) -> None:
        self.provider.count("Session.recover")

    @property
    def message_listener(self) -> api.MessageListener | None:
        return self.listener

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        self.listener = listener

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.provider.count("Session.close")
        self.give_back()


class MemoryProducer(api.MessageProducer):
    def __init__(self, session: MemorySession, destination: Destination | None) -> None:
        self.session = session
        self.bound_to = destination
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = 4
        self.time_to_live = 0.0
        self.disable_message_id = self.disable_message_timestamp = False

    @property
    def destination(self) -> Destination | None:
        return self.bound_to

    async def send(
        self,
        message: Message,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> None:
        provider = self.session.provider
        provider.count("Producer.send")
        message.destination = destination or self.bound_to
        assert message.destination is not None
        message.delivery_mode = self.delivery_mode if delivery_mode is None else delivery_mode
        message.priority = self.priority if priority is None else priority
        ttl = self.time_to_live if time_to_live is None else time_to_live
        message.timestamp = 0 if self.disable_message_timestamp else 1000
        message.expiration = int(1000 + ttl * 1000) if ttl else 0
        provider.numbers += 1
        message.message_id = None if self.disable_message_id else f"ID:{provider.numbers}"
        kept = copy.copy(message)
        if self.session.transacted:
            self.session.unsent.append((message.destination, kept))
        else:
            provider.put(message.destination, kept)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.session.provider.count("Producer.close")


def matches(message: Message, selector: str | None) -> bool:
    if not selector:
        return True
    found = SELECTOR.fullmatch(selector)
    assert found
    return message.properties.get_string(found[1]) == found[2].replace("''", "'")


class MemoryConsumer(api.MessageConsumer):
    def __init__(
        self,
        session: MemorySession,
        destination: Destination,
        selector: str | None,
        *,
        no_local: bool,
    ) -> None:
        if selector and not SELECTOR.fullmatch(selector):
            raise InvalidSelectorException(f"bad selector {selector}")
        self.session = session
        self.no_local = no_local
        self.source = destination
        self.selector = selector
        self.listener: api.MessageListener | None = None
        self.closed = False

    @property
    def is_closed(self) -> bool:
        return self.closed

    @property
    def destination(self) -> Destination:
        return self.source

    @property
    def message_selector(self) -> str | None:
        return self.selector

    @property
    def message_listener(self) -> api.MessageListener | None:
        return self.listener

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        self.listener = listener

    async def receive(self, timeout: float | None = None) -> Message | None:
        provider = self.session.provider
        if self.closed or not self.session.connection.started:
            raise IllegalStateException("not started" if not self.closed else "closed")
        while True:
            for message in provider.queues.get(self.source, []):
                if matches(message, self.selector):
                    return self.take(message)
            if timeout is not None:  # the tests decide what is there: nobody waits for a clock
                return None
            await provider.changed.wait()

    def take(self, message: Message) -> Message:
        self.session.provider.queues[self.source].remove(message)
        if self.session.transacted:
            self.session.received.append((self.source, message))
        message.acknowledger = lambda m: self.session.provider.count("Message.acknowledge")
        return message

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.session.provider.count("Consumer.close")
        self.closed = True


class MemoryBrowser(api.QueueBrowser):
    def __init__(self, session: MemorySession, queue: Queue, selector: str | None) -> None:
        self.session = session
        self.source = queue
        self.selector = selector

    @property
    def queue(self) -> Queue:
        return self.source

    @property
    def message_selector(self) -> str | None:
        return self.selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        for message in list(self.session.provider.queues.get(self.source, [])):
            if matches(message, self.selector):
                yield message

    async def close(self) -> None:
        self.session.provider.count("Browser.close")


@pytest.fixture
def provider() -> MemoryProvider:
    return MemoryProvider()
