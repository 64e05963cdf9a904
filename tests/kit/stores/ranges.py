"""Brokers on every store, and a client of bare requests to `PyJMS.Ranges`."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.client.connection import ActiveMQConnection
from pyjms.jms.destination import Queue
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.wire.kahadb.frames import decode_message
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings
from tests.kit.stores.small import SMALL_SEGMENTS

RANGES = Queue("PyJMS.Ranges")
HEAD = struct.Struct(">qi")
_numbers = itertools.count(1)


class RangesClient:
    """A connection that sends requests to `PyJMS.Ranges` and receives the responses."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self.connection = connection

    async def open(self) -> None:
        await self.connection.start()
        self.session = await self.connection.create_session()
        self.answers = await self.session.create_temporary_queue()
        self._consumer = await self.session.create_consumer(self.answers)
        self._producer = await self.session.create_producer(RANGES)

    async def send(self, op: str, **fields: object) -> None:
        message = TextMessage(json.dumps({"op": op, **fields}))
        message.reply_to = self.answers
        await self._producer.send(message)

    async def answer(self, timeout: float | None = None) -> Message:
        """Wait for the next response; None: for as long as the test may last."""
        message = await self._consumer.receive(timeout)
        assert message is not None, "no answer came"
        return message

    async def ask(self, op: str, **fields: object) -> dict[str, Any]:
        await self.send(op, **{name.rstrip("_"): value for name, value in fields.items()})
        message = await self.answer()
        assert isinstance(message, TextMessage)
        found: dict[str, Any] = json.loads(message.text or "")
        return found

    async def chunk(
        self, token: str, start: int, end: int
    ) -> tuple[dict[int, str | None], Message]:
        """Return the texts of one answer by their numbers."""
        await self.send("range", token=token, to=end, **{"from": start})
        message = await self.answer()
        assert isinstance(message, BytesMessage), getattr(message, "text", message)
        return dict(texts(bytes(message.data or b""))), message

    @staticmethod
    def texts(message: Message) -> list[tuple[int, str | None]]:
        assert isinstance(message, BytesMessage)
        return list(texts(bytes(message.data or b"")))

    async def range(self, token: str, start: int, end: int) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        while True:
            some, message = await self.chunk(token, start, end)
            assert not some or (min(some) >= start and max(some) < end)
            found.update(some)
            start = int(str(message.properties["next"]))
            if message.properties["last"]:
                assert list(found) == sorted(found)
                return found


def texts(body: bytes) -> Iterator[tuple[int, str | None]]:
    at = 0
    while at < len(body):
        number, size = HEAD.unpack_from(body, at)
        frame = body[at + 8 : at + HEAD.size + size]  # with its size
        yield number, decode_text(bytes(decode_message(frame).content or b""))
        at += HEAD.size + size


class Broker:
    """A broker that can be started again over the same store."""

    def __init__(self, kind: str, folder: Path, **attributes: Any) -> None:
        self.kind, self.folder, self.attributes = kind, folder, attributes
        self.name = f"ranges-{next(_numbers)}"
        self.stack = AsyncExitStack()

    async def start(self) -> None:
        """Start it, as a new service on the existing store."""
        how: dict[str, Any] = {}
        if self.kind == "memory":
            how["persistent"] = False
        elif self.kind == "jdbc":
            how["persistence_adapter"] = JDBCPersistenceAdapter(self.folder / "sql", JDBCSettings())
        else:
            how["persistence"] = SMALL_SEGMENTS
        self.service = BrokerService(
            self.name, data_directory=self.folder, **how, **self.attributes
        )
        await self.service.start()

    async def stop(self) -> None:
        await self.stack.aclose()
        self.stack = AsyncExitStack()
        await self.service.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def connect(self) -> ActiveMQConnection:
        factory = ConnectionFactory(f"{self.service.vm_uri}?create=false")
        connection = await factory.create_connection()
        self.stack.push_async_callback(connection.close)
        await connection.start()
        return connection

    async def client(self) -> RangesClient:
        client = RangesClient(await self.connect())
        await client.open()
        return client

    async def send(
        self, queue: str, *texts: str, session: Any = None, properties: Any = None, **how: Any
    ) -> None:
        if session is None:
            session = await (await self.connect()).create_session()
        producer = await session.create_producer(Queue(queue))
        for text in texts:
            message = TextMessage(text)
            for name, value in (properties or {}).items():
                message.properties[name] = value
            await producer.send(message, **how)
        await producer.close()


MakeBroker = Callable[..., Awaitable[Broker]]


@pytest.fixture
async def make_broker(tmp_path: Path) -> AsyncIterator[MakeBroker]:
    made: list[Broker] = []

    async def make(kind: str, **attributes: Any) -> Broker:
        broker = Broker(kind, tmp_path, **attributes)
        await broker.start()
        made.append(broker)
        return broker

    yield make
    for broker in made:
        await broker.stop()


@pytest.fixture
def prioritized() -> PolicyMap:
    return PolicyMap([PolicyEntry(destination=Queue(">"), prioritized_messages=True)])
