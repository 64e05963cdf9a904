"""A JMS provider in memory: it logs calls under their Java names and fails on demand.

It has queues, topics with durable subscriptions, transactions with redelivery, temporary queues,
and one kind of selector (`name = 'text'`).
"""

from __future__ import annotations

import copy
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidSelectorException,
    JMSException,
)
from pyjms.jms import api
from pyjms.jms.api import destination_first
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, spawn

MAX_DELIVERIES = 7
SELECTOR = re.compile(r"\s*(\w+)\s*=\s*'(.*)'\s*")


class Waker:
    """An event that can be set again and again, from any thread."""

    def __init__(self) -> None:
        self.loop = LoopHandle()
        self.changed = anyio.Event()

    def wake(self) -> None:
        if self.loop.is_current():
            changed, self.changed = self.changed, anyio.Event()
            changed.set()
        else:
            self.loop.call_soon(self.wake)


class Entry:
    """A message in a backlog, and how often it was delivered."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.count = 0

    @property
    def text(self) -> str | None:
        return self.message.text if isinstance(self.message, TextMessage) else None


class Backlog(Waker):
    """The messages of a queue, or of one subscriber to a topic."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[Entry] = deque()

    def put(self, entry: Entry, *, first: bool = False) -> None:
        (self.entries.appendleft if first else self.entries.append)(entry)
        self.wake()


class JmsProvider(api.ConnectionFactory):
    """Queues and topics by name; `calls` logs every call on it and what it made.

    With `waits=False`, a receive with a timeout does not wait, and one before the connection is
    started is an error: for tests that have no clock and decide themselves what is there.
    """

    def __init__(self, *, waits: bool = True) -> None:
        self.waits = waits
        self.calls: list[str] = []
        """With arguments where tests look at them: `Connection.createSession(...)`."""
        self.counts: Counter[str] = Counter()
        """How often each was called, by its name alone."""
        self.loop = LoopHandle()
        self.backlogs: dict[Destination, Backlog] = {}
        self.subscribers: dict[str, list[Backlog]] = {}
        self.durable: dict[tuple[str | None, str], Backlog] = {}
        self.dead: list[str | None] = []
        self.connections: list[ProviderConnection] = []
        self.open_sessions: list[ProviderSession] = []
        self.client_ids: set[str] = set()
        self.credentials: list[tuple[str | None, str | None]] = []
        self.down: str | None = None
        self.on_receive: Callable[[ProviderConsumer, Message | None], Any] | None = None
        self.failures: dict[str, Exception] = {}
        """What a call raises, each time."""
        self.fail_next: dict[str, Exception] = {}
        """What a call raises, once."""
        self.timeouts: list[float | None] = []
        self.prefetch_all = False
        self._numbers = 0

    def log(self, call: str) -> None:
        self.calls.append(call)
        name = call.partition("(")[0]
        self.counts[name] += 1
        error = self.fail_next.pop(name, None) or self.failures.get(name)
        if error is not None:
            raise error

    def count(self, *names: str) -> dict[str, int]:
        counts = Counter(call.partition("(")[0] for call in self.calls)
        return {name: counts[name] for name in names}

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    @property
    def open_connections(self) -> list[ProviderConnection]:
        return [connection for connection in self.connections if not connection.closed]

    def backlog(self, destination: str | Destination) -> Backlog:
        key = Queue(destination) if isinstance(destination, str) else destination
        return self.backlogs.setdefault(key, Backlog())

    def messages(self, name: str) -> list[Message]:
        """Return the messages of a queue."""
        return [entry.message for entry in self.backlog(name).entries]

    def texts(self, name: str) -> list[str | None]:
        """Return the texts of a queue's text messages."""
        return [m.text for m in self.messages(name) if isinstance(m, TextMessage)]

    def put(self, destination: Destination, message: Message) -> None:
        """Put a message into a queue, from any thread."""
        if self.loop.is_current():
            self.backlog(destination).put(Entry(message))
        else:
            self.loop.call_soon(self.put, destination, message)

    def send(self, name: str, *texts: str, **properties: Any) -> None:
        """Put texts into a queue, from any thread."""
        for text in texts:
            self.put(Queue(name), _text_message(text, properties))

    def publish(self, name: str, *texts: str) -> None:
        """Give texts to all subscribers of a topic."""
        for text in texts:
            for backlog in self.subscribers.get(name, []):
                backlog.put(Entry(_text_message(text, {})))

    def break_down(self, text: str = "broker gone") -> None:
        """Fail every open connection, and refuse new ones."""
        self.down = text
        for connection in self.open_connections:
            connection.broken = text
            if connection.exception_listener is not None:
                connection.exception_listener(JMSException(text))
        topics = (backlog for backlogs in self.subscribers.values() for backlog in backlogs)
        for backlog in [*self.backlogs.values(), *topics]:
            backlog.wake()

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> api.Connection:
        self.log("ConnectionFactory.createConnection")
        self.credentials.append((user_name, password))
        if self.down is not None:
            raise ConnectionFailedException(self.down)
        connection = ProviderConnection(self)
        self.connections.append(connection)
        return connection


def _text_message(text: str, properties: dict[str, Any]) -> TextMessage:
    message = TextMessage(text)
    message.message_id = f"ID:{text}"
    for name, value in properties.items():
        message.properties[name] = value
    return message


class ProviderConnection(api.Connection):
    """A connection of `JmsProvider`."""

    def __init__(self, provider: JmsProvider) -> None:
        self.provider = provider
        self.exception_listener = None
        self.start_event = anyio.Event()
        self.closed = False
        self.broken: str | None = None
        self.sessions: list[ProviderSession] = []
        self._client_id: str | None = None

    @property
    def started(self) -> bool:
        return self.start_event.is_set()

    @property
    def client_id(self) -> str | None:
        return self._client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        return ConnectionMetaData()

    async def set_client_id(self, client_id: str) -> None:
        self.provider.log(f"Connection.setClientID({client_id})")
        if client_id in self.provider.client_ids:
            raise InvalidClientIDException(f"{client_id} already connected")
        self.provider.client_ids.add(client_id)
        self._client_id = client_id

    def check(self) -> None:
        if self.closed:
            raise IllegalStateException("The connection is already closed")
        if self.broken is not None:
            raise JMSException(self.broken)

    async def create_session(
        self, transacted: bool = False, acknowledge_mode: AcknowledgeMode | int = 1
    ) -> api.Session:
        self.provider.log(
            f"Connection.createSession(transacted={str(transacted).lower()},"
            f"ack={int(acknowledge_mode)})"
        )
        self.check()
        mode = AcknowledgeMode.TRANSACTED if transacted else AcknowledgeMode(acknowledge_mode)
        session = ProviderSession(self, mode)
        self.sessions.append(session)
        self.provider.open_sessions.append(session)
        return session

    async def start(self) -> None:
        self.check()
        if not self.started:
            self.provider.log("Connection.start")
            self.start_event.set()

    async def stop(self) -> None:
        if self.started:
            self.provider.log("Connection.stop")
            self.start_event = anyio.Event()

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.closed:
            return
        self.closed = True
        self.provider.log("Connection.close")
        if self._client_id is not None:
            self.provider.client_ids.discard(self._client_id)
        for session in list(self.sessions):
            session.end()


class ProviderSession(api.Session):
    """A session of `JmsProvider`."""

    def __init__(self, connection: ProviderConnection, mode: AcknowledgeMode) -> None:
        self.connection = connection
        self.provider = connection.provider
        self.unacknowledged: list[tuple[Backlog, Entry]] = []
        self.outgoing: list[tuple[Destination, Message]] = []
        self.consumers: list[ProviderConsumer] = []
        self.closed = False
        self._mode = mode
        self._listener: api.MessageListener | None = None

    @property
    def transacted(self) -> bool:
        return self._mode == AcknowledgeMode.TRANSACTED

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._mode

    def check(self) -> None:
        if self.closed:
            raise IllegalStateException("The Session is closed")
        self.connection.check()

    def create_queue(self, name: str) -> Queue:
        self.provider.log("Session.createQueue")
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.provider.log("Session.createTopic")
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
        return TemporaryQueue(f"temp:{self.provider.next_number()}")

    async def create_temporary_topic(self) -> TemporaryTopic:
        return TemporaryTopic("temp")

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        self.provider.log("TemporaryQueue.delete")
        self.provider.backlogs.pop(destination, None)

    async def create_producer(self, destination: Destination | None = None) -> api.MessageProducer:
        self.provider.log("Session.createProducer")
        return ProviderProducer(self, destination)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        options = f"({selector},no_local={no_local})" if selector or no_local else ""
        self.provider.log(f"Session.createConsumer{options}")
        self.check()
        if destination.is_queue:
            backlog = self._prefetched(destination)
        else:
            backlog = Backlog()
            self.provider.subscribers.setdefault(destination.physical_name, []).append(backlog)
        return ProviderConsumer(self, destination, backlog, selector, no_local=no_local)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        self.provider.log(f"Session.createDurableSubscriber(name={name})")
        self.check()
        key = (self.connection.client_id, name)
        durable = self.provider.durable
        if key not in durable:
            durable[key] = Backlog()
            self.provider.subscribers.setdefault(topic.physical_name, []).append(durable[key])
        return ProviderConsumer(self, topic, durable[key], selector, no_local=no_local)

    def _prefetched(self, queue: Destination) -> Backlog:
        backlog = self.provider.backlog(queue)
        if not self.provider.prefetch_all:
            return backlog
        mine = Backlog()
        mine.entries, backlog.entries = backlog.entries, mine.entries
        return mine

    async def create_browser(self, queue: Queue, selector: str | None = None) -> api.QueueBrowser:
        self.provider.log("Session.createBrowser")
        return ProviderBrowser(self, queue, selector)

    async def unsubscribe(self, name: str) -> None:
        self.provider.log("Session.unsubscribe")

    def delivered(self, backlog: Backlog, entry: Entry) -> None:
        if self._mode not in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK):
            self.unacknowledged.append((backlog, entry))

    def acknowledge(self, message: Any) -> None:
        self.check()
        self.provider.log("Message.acknowledge")
        self.unacknowledged.clear()

    def send(self, destination: str | Destination, message: str | Message) -> None:
        """Send with the next commit of a transacted session, else at once."""
        to = Queue(destination) if isinstance(destination, str) else destination
        self.outgoing.append((to, TextMessage(message) if isinstance(message, str) else message))
        if not self.transacted:
            self._send_outgoing()

    def _send_outgoing(self) -> None:
        outgoing, self.outgoing = self.outgoing, []
        for destination, message in outgoing:
            self.provider.put(destination, message)

    async def commit(self) -> None:
        self.provider.log("Session.commit")
        self.check()
        self.unacknowledged.clear()
        self._send_outgoing()

    async def rollback(self) -> None:
        self.provider.log("Session.rollback")
        self.check()
        self._requeue()

    async def recover(self) -> None:
        self.provider.log("Session.recover")
        self.check()
        self._requeue()

    def _requeue(self) -> None:
        for backlog, entry in reversed(self.unacknowledged):
            if entry.count >= MAX_DELIVERIES:
                self.provider.dead.append(entry.text)
            else:
                backlog.put(entry, first=True)
        self.unacknowledged.clear()
        self.outgoing.clear()

    @property
    def message_listener(self) -> api.MessageListener | None:
        return self._listener

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        self._listener = listener

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.provider.log("Session.close")
        self.end()

    def end(self) -> None:
        if not self.closed:
            self.closed = True
            self.provider.open_sessions.remove(self)
            self._requeue()
            for consumer in self.consumers:
                consumer.end()


class ProviderProducer(api.MessageProducer):
    """A producer of `JmsProvider`: time stands still at 1000 ms."""

    def __init__(self, session: ProviderSession, destination: Destination | None) -> None:
        self.session = session
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = 4
        self.time_to_live = self.delivery_delay = 0.0
        self.disable_message_id = self.disable_message_timestamp = False
        self._destination = destination

    @property
    def destination(self) -> Destination | None:
        return self._destination

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: api.AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: api.CompletionListener | None = None,
    ) -> None:
        assert completion_listener is None
        assert callback is None
        provider = self.session.provider
        provider.log("Producer.send")
        message, destination = destination_first(message, to_send, destination)
        message.destination = destination or self._destination
        assert message.destination is not None
        message.delivery_mode = self.delivery_mode if delivery_mode is None else delivery_mode
        message.priority = self.priority if priority is None else priority
        ttl = self.time_to_live if time_to_live is None else time_to_live
        message.timestamp = 0 if self.disable_message_timestamp else 1000
        message.expiration = int(1000 + ttl * 1000) if ttl else 0
        delay = self.delivery_delay if delivery_delay is None else delivery_delay
        message.delivery_time = message.timestamp + int(delay * 1000)
        number = provider.next_number()
        message.message_id = None if self.disable_message_id else f"ID:{number}"
        self.session.send(message.destination, copy.copy(message))

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.session.provider.log("Producer.close")


def matches(message: Message, selector: str | None) -> bool:
    if not selector:
        return True
    found = SELECTOR.fullmatch(selector)
    assert found
    return message.properties.get_string(found[1]) == found[2].replace("''", "'")


class ProviderConsumer(api.MessageConsumer):
    """A consumer of `JmsProvider`, by `receive` or with a listener."""

    def __init__(
        self,
        session: ProviderSession,
        destination: Destination,
        backlog: Backlog,
        selector: str | None,
        *,
        no_local: bool,
    ) -> None:
        if selector and not SELECTOR.fullmatch(selector):
            raise InvalidSelectorException(f"bad selector {selector}")
        self.session = session
        self.provider = session.provider
        self.backlog = backlog
        self.no_local = no_local
        self.closed = False
        self._destination = destination
        self._selector = selector
        self._listener: Any = None
        self._pump: BackgroundTask | None = None
        session.consumers.append(self)

    @property
    def is_closed(self) -> bool:
        return self.closed

    @property
    def destination(self) -> Destination:
        return self._destination

    @property
    def message_selector(self) -> str | None:
        return self._selector

    @property
    def message_listener(self) -> Any:
        return self._listener

    async def receive(self, timeout: float | None = None) -> Message | None:
        self.provider.log("Consumer.receive")
        self.provider.timeouts.append(timeout)
        message = await self._next(timeout)
        if message is None:
            self.provider.calls.append("receive=null")
        if self.provider.on_receive is not None:
            await self.provider.on_receive(self, message)
        return message

    async def _next(self, timeout: float | None) -> Message | None:
        connection = self.session.connection
        self.session.check()
        if not self.provider.waits:
            if self.closed or not connection.started:
                raise IllegalStateException("closed" if self.closed else "not started")
            timeout = None if timeout is None else 0.0
        entry = self._pop()
        if entry is None and timeout != 0.0:
            with _clock.timeout(timeout):
                while (entry := self._pop()) is None:
                    if connection.started:
                        await self.backlog.changed.wait()
                    else:
                        await connection.start_event.wait()
                    self.session.check()
        return None if entry is None else self._deliver(entry)

    def _pop(self) -> Entry | None:
        if self.session.connection.started:
            for entry in self.backlog.entries:
                if matches(entry.message, self._selector):
                    self.backlog.entries.remove(entry)
                    return entry
        return None

    def _deliver(self, entry: Entry) -> Message:
        entry.count += 1
        self.session.delivered(self.backlog, entry)
        message = copy.copy(entry.message)
        message.delivery_count = entry.count
        message.redelivered = entry.count > 1
        message.acknowledger = self.session.acknowledge
        return message

    async def set_message_listener(self, listener: Any) -> None:
        self.provider.log("Consumer.setMessageListener")
        self._listener = listener
        if self.provider.waits:
            self._pump = spawn(self._push, name="pump", on_error=lambda _error: None)

    async def _push(self) -> None:
        while (message := await self._next(None)) is not None:
            await self._listener(message)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        if not self.closed:
            self.provider.log("Consumer.close")
            self.end()

    def end(self) -> None:
        self.closed = True
        if self._pump is not None:
            self._pump.cancel()
        for backlogs in self.provider.subscribers.values():
            if self.backlog in backlogs and self.backlog not in self.provider.durable.values():
                backlogs.remove(self.backlog)


class ProviderBrowser(api.QueueBrowser):
    """A browser of `JmsProvider`."""

    def __init__(self, session: ProviderSession, queue: Queue, selector: str | None) -> None:
        self.session = session
        self._queue = queue
        self._selector = selector

    @property
    def queue(self) -> Queue:
        return self._queue

    @property
    def message_selector(self) -> str | None:
        return self._selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        for message in self.session.provider.messages(self._queue.physical_name):
            if matches(message, self._selector):
                yield message

    async def close(self) -> None:
        self.session.provider.log("Browser.close")


@pytest.fixture
async def provider() -> JmsProvider:
    """A provider whose receives never wait for a clock."""
    return JmsProvider(waits=False)


@pytest.fixture(name="provider")
async def waiting_provider() -> JmsProvider:
    """A provider whose receives wait as long as they say."""
    return JmsProvider()


@pytest.fixture
def new_provider() -> type[JmsProvider]:
    return JmsProvider
