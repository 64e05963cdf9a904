"""A provider that implements the ABCs in memory, counts calls and fails on demand."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms import _clock
from pyjms._wakeup import BackgroundTask, LoopHandle, spawn
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
)
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.listener.container.default import DefaultMessageListenerContainer
from pyjms.testing.clock import VirtualClock

MAX_DELIVERIES = 7


class Entry:
    """A message on its way: its text and how often it was delivered."""

    def __init__(self, text: str, count: int = 0) -> None:
        self.text = text
        self.count = count


class Waker:
    """An event again and again, set from any thread."""

    def __init__(self) -> None:
        self.loop = LoopHandle()
        self.changed = anyio.Event()

    def wake(self) -> None:
        if self.loop.is_current():
            changed, self.changed = self.changed, anyio.Event()
            changed.set()
        else:
            self.loop.call_soon(self.wake)


class Line(Waker):
    """A queue, or one subscriber's share of a topic."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: deque[Entry] = deque()

    def put(self, entry: Entry, *, first: bool = False) -> None:
        (self.entries.appendleft if first else self.entries.append)(entry)
        self.wake()


class FakeProvider(ConnectionFactory):
    """Queues and topics by name; every call on it and what it made is in `calls`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.loop = LoopHandle()
        self.lines: dict[str, Line] = {}
        self.subscribers: dict[str, list[Line]] = {}
        self.durable: dict[tuple[str | None, str], Line] = {}
        self.dead: list[str] = []
        self.connections: list[FakeConnection] = []
        self.open_sessions: list[FakeSession] = []
        self.client_ids: set[str] = set()
        self.down: str | None = None
        self.on_receive: Callable[[FakeConsumer, TextMessage | None], Any] | None = None
        self.fail_next: dict[str, Exception] = {}
        self.timeouts: list[float | None] = []
        self.prefetch_all = False

    def log(self, call: str) -> None:
        self.calls.append(call)
        error = self.fail_next.pop(call.partition("(")[0], None)
        if error is not None:
            raise error

    def count(self, *names: str) -> dict[str, int]:
        counts = Counter(call.partition("(")[0] for call in self.calls)
        return {name: counts[name] for name in names}

    def line(self, name: str) -> Line:
        return self.lines.setdefault(name, Line())

    def send(self, name: str, *texts: str) -> None:
        if not self.loop.is_current():
            self.loop.call_soon(self.send, name, *texts)
            return
        for text in texts:
            self.line(name).put(Entry(text))

    def publish(self, name: str, *texts: str) -> None:
        for text in texts:
            for line in self.subscribers.get(name, []):
                line.put(Entry(text))

    def left(self, name: str) -> list[str]:
        return [entry.text for entry in self.line(name).entries]

    def break_down(self, text: str = "broker gone") -> None:
        """Every open connection fails, new ones are refused."""
        self.down = text
        for connection in list(self.connections):
            connection.broken = text
            if connection.exception_listener is not None:
                connection.exception_listener(JMSException(text))
        for line in [*self.lines.values(), *(x for xs in self.subscribers.values() for x in xs)]:
            line.wake()

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        self.log("ConnectionFactory.createConnection")
        if self.down is not None:
            raise ConnectionFailedException(self.down)
        connection = FakeConnection(self)
        self.connections.append(connection)
        return connection


class FakeConnection(Connection):
    def __init__(self, provider: FakeProvider) -> None:
        self.provider = provider
        self.exception_listener = None
        self.started = anyio.Event()
        self.closed = False
        self.broken: str | None = None
        self.sessions: list[FakeSession] = []
        self._client_id: str | None = None

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
    ) -> Session:
        self.provider.log(
            f"Connection.createSession(transacted={str(transacted).lower()},"
            f"ack={int(acknowledge_mode)})"
        )
        self.check()
        session = FakeSession(self, transacted, acknowledge_mode)
        self.sessions.append(session)
        self.provider.open_sessions.append(session)
        return session

    async def start(self) -> None:
        self.check()
        if not self.started.is_set():
            self.provider.log("Connection.start")
            self.started.set()

    async def stop(self) -> None:
        if self.started.is_set():
            self.provider.log("Connection.stop")
            self.started = anyio.Event()

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.provider.log("Connection.close")
        if self._client_id is not None:
            self.provider.client_ids.discard(self._client_id)
        if self in self.provider.connections:
            self.provider.connections.remove(self)
        for session in list(self.sessions):
            await session.end()


class FakeSession(Session):
    def __init__(
        self, connection: FakeConnection, transacted: bool, mode: AcknowledgeMode | int
    ) -> None:
        self.connection = connection
        self.provider = connection.provider
        self._transacted = transacted
        self._mode = AcknowledgeMode.TRANSACTED if transacted else AcknowledgeMode(mode)
        self.unacknowledged: list[tuple[Line, Entry]] = []
        self.consumers: list[FakeConsumer] = []
        self.outgoing: list[tuple[str, str]] = []
        self.closed = False

    @property
    def transacted(self) -> bool:
        return self._transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._mode

    def create_queue(self, name: str) -> Queue:
        self.provider.log("Session.createQueue")
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.provider.log("Session.createTopic")
        return Topic(name)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        options = f"({selector},no_local={no_local})" if selector or no_local else ""
        self.provider.log(f"Session.createConsumer{options}")
        self.check()
        name = destination.physical_name
        if destination.is_queue:
            return FakeConsumer(self, destination, self._prefetched(name), selector)
        line = Line()
        self.provider.subscribers.setdefault(name, []).append(line)
        return FakeConsumer(self, destination, line, selector)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        self.provider.log(f"Session.createDurableSubscriber(name={name})")
        self.check()
        key = (self.connection.client_id, name)
        if key not in self.provider.durable:
            self.provider.durable[key] = Line()
            self.provider.subscribers.setdefault(topic.physical_name, []).append(
                self.provider.durable[key]
            )
        return FakeConsumer(self, topic, self.provider.durable[key], selector)

    def _prefetched(self, name: str) -> Line:
        line = self.provider.line(name)
        if not self.provider.prefetch_all:
            return line
        mine = Line()
        mine.entries, line.entries = line.entries, mine.entries
        return mine

    def check(self) -> None:
        if self.closed:
            raise IllegalStateException("The Session is closed")
        self.connection.check()

    def took(self, line: Line, entry: Entry) -> None:
        if self._transacted or self._mode in (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL):
            self.unacknowledged.append((line, entry))

    def acknowledge(self, message: Any) -> None:
        self.check()
        self.provider.log("Message.acknowledge")
        self.unacknowledged.clear()

    def give_back(self) -> None:
        for line, entry in reversed(self.unacknowledged):
            if entry.count >= MAX_DELIVERIES:
                self.provider.dead.append(entry.text)
            else:
                line.put(entry, first=True)
        self.unacknowledged.clear()
        self.outgoing.clear()

    async def commit(self) -> None:
        self.provider.log("Session.commit")
        self.check()
        self.unacknowledged.clear()
        for name, text in self.outgoing:
            self.provider.send(name, text)
        self.outgoing.clear()

    async def rollback(self) -> None:
        self.provider.log("Session.rollback")
        self.check()
        self.give_back()

    async def recover(self) -> None:
        self.provider.log("Session.recover")
        self.check()
        self.give_back()

    async def close(self) -> None:
        if not self.closed:
            self.provider.log("Session.close")
            await self.end()

    async def end(self) -> None:
        if not self.closed:
            self.closed = True
            self.provider.open_sessions.remove(self)
            self.give_back()
            for consumer in self.consumers:
                await consumer.end()

    def send(self, name: str, text: str) -> None:
        """What a template would do with this session."""
        if self._transacted:
            self.outgoing.append((name, text))
        else:
            self.provider.send(name, text)

    message_listener = None

    async def set_message_listener(self, listener: Any) -> None:
        raise NotImplementedError

    create_message = create_text_message = create_bytes_message = None  # type: ignore[assignment]
    create_map_message = create_stream_message = create_object_message = None  # type: ignore[assignment]
    create_temporary_queue = create_temporary_topic = delete_temporary = None  # type: ignore[assignment]
    create_producer = create_browser = unsubscribe = None  # type: ignore[assignment]


class FakeConsumer(MessageConsumer):
    def __init__(
        self, session: FakeSession, destination: Destination, line: Line, selector: str | None
    ) -> None:
        self.session = session
        self.provider = session.provider
        self.line = line
        self._destination = destination
        self._selector = selector
        self._listener: Any = None
        self._pump: BackgroundTask | None = None
        self.closed = False
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

    async def receive(self, timeout: float | None = None) -> TextMessage | None:
        self.provider.log("Consumer.receive")
        self.provider.timeouts.append(timeout)
        message = await self.take(timeout)
        if message is None:
            self.provider.calls.append("receive=null")
        if self.provider.on_receive is not None:
            await self.provider.on_receive(self, message)
        return message

    async def take(self, timeout: float | None) -> TextMessage | None:
        connection = self.session.connection
        self.session.check()
        if not (self.line.entries and connection.started.is_set()):
            with _clock.timeout(timeout):
                while not (self.line.entries and connection.started.is_set()):
                    if not connection.started.is_set():
                        await connection.started.wait()
                    else:
                        await self.line.changed.wait()
                    self.session.check()
        if not (self.line.entries and connection.started.is_set()):
            return None
        entry = self.line.entries.popleft()
        entry.count += 1
        self.session.took(self.line, entry)
        message = TextMessage(entry.text)
        message.message_id = f"ID:{entry.text}"
        message.delivery_count = entry.count
        message.redelivered = entry.count > 1
        message.acknowledger = self.session.acknowledge
        return message

    async def set_message_listener(self, listener: Any) -> None:
        self.provider.log("Consumer.setMessageListener")
        self._listener = listener
        self._pump = spawn(self._push, name="fake pump", on_error=lambda _error: None)

    async def _push(self) -> None:
        while (message := await self.take(None)) is not None:
            await self._listener(message)

    async def close(self) -> None:
        if not self.closed:
            self.provider.log("Consumer.close")
            await self.end()

    async def end(self) -> None:
        self.closed = True
        if self._pump is not None:
            self._pump.cancel()
        for lines in self.provider.subscribers.values():
            if self.line in lines and self.line not in self.provider.durable.values():
                lines.remove(self.line)


class Recorder(Waker):
    """A listener's diary: `text#count`, with `*` when redelivered."""

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[str] = []
        self.errors: list[BaseException] = []
        self.exceptions: list[BaseException] = []

    def note(self, message: Any) -> None:
        mark = "*" if message.redelivered else ""
        self.deliveries.append(f"{message.text}#{message.delivery_count}{mark}")
        self.wake()

    async def hear(self, message: Any) -> None:
        """`note` as a coroutine: stays on the loop."""
        self.note(message)

    def on_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.wake()

    def on_exception(self, error: BaseException) -> None:
        self.exceptions.append(error)
        self.wake()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` holds; it is asked after each note."""
        while not condition():
            await self.changed.wait()


@pytest.fixture
async def provider() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
def new_provider() -> type[FakeProvider]:
    return FakeProvider


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """A clock that the test turns."""
    async with VirtualClock() as virtual:
        yield virtual


@pytest.fixture
async def jumping() -> AsyncIterator[VirtualClock]:
    """A clock that turns itself whenever everything waits."""
    async with VirtualClock(autojump=True) as virtual:
        yield virtual


@pytest.fixture
async def build(provider: FakeProvider) -> AsyncIterator[Callable[..., Any]]:
    """`build(listener, **properties)`: a container on queue "q", shut down after the test."""
    built: list[DefaultMessageListenerContainer] = []

    def make(listener: Any = None, **properties: Any) -> DefaultMessageListenerContainer:
        if "destination" not in properties:
            properties.setdefault("destination_name", "q")
        container = DefaultMessageListenerContainer(
            properties.pop("connection_factory", provider), message_listener=listener, **properties
        )
        built.append(container)
        return container

    yield make
    for container in built:
        with anyio.CancelScope(shield=True):
            await container.shutdown(0)
