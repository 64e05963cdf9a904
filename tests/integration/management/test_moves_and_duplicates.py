"""What is moved, retried or dead-lettered is never dropped as a duplicate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, parse_destination
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import AckType
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings
from tests.kit.clients.raw import RawClient
from tests.kit.stores.factories import FACTORIES

Opened = Callable[[], AbstractAsyncContextManager["Moving"]]

STORES = {each.name: each.make for each in FACTORIES if "postgresql" not in each.name}
STORES["jdbc-audited"] = lambda folder: JDBCPersistenceAdapter(
    folder, JDBCSettings(enable_audit=True)
)


class Moving:
    """A broker with a store, and a client of it."""

    def __init__(self, service: BrokerService, client: RawClient) -> None:
        self.service = service
        self.client = client

    async def send(self, to: str, text: str, duplicate_id: str | None = None) -> None:
        message = self.client.text(await self.client.producer(), parse_destination(to), text)
        if duplicate_id is not None:
            message.marshalled_properties = encode_map({"_AMQ_DUPL_ID": duplicate_id, "n": 1})
        await self.client.request(message)

    async def refuse(self, queue: Destination) -> None:
        """Consume the first message of a queue with the result that it becomes a dead letter."""
        consumer = await self.client.consumer(queue, prefetch_size=1)
        await self.client.ack(await self.client.dispatched(), AckType.POISON)
        await self.client.remove(consumer)

    def view(self, name: str) -> View[Any]:
        pattern = f"*:type=Broker,destinationType=Queue,destinationName={name},*"
        found = self.service.management.find(pattern)
        return next(each for each in found if "endpoint" not in each.name.keys)

    async def items(self, name: str) -> list[dict[str, Any]]:
        items = await self.view(name).invoke("browse")
        assert isinstance(items, list)
        return items

    async def texts(self, *names: str) -> list[list[str]]:
        return [sorted(item["Text"] for item in await self.items(name)) for name in names]


@pytest.fixture(params=sorted(STORES))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens a broker on the same store each time."""
    make = STORES[request.param]

    @asynccontextmanager
    async def broker() -> AsyncIterator[Moving]:
        name = f"moving-{request.param}"
        async with BrokerService(
            name, data_directory=tmp_path, persistence_adapter=make(tmp_path)
        ) as service:
            client = RawClient(create_transport(f"{service.vm_uri}?create=false"))
            await client.open()
            try:
                yield Moving(service, client)
            finally:
                await client.close()

    return broker


@pytest.fixture
def keeps(request: pytest.FixtureRequest) -> bool:
    """Whether the store has its messages after a restart."""
    return bool(request.node.callspec.params["opened"] != "memory")


async def test_a_dead_letter_with_a_duplicate_id_returns(opened: Opened, keeps: bool) -> None:
    async with opened() as broker:
        await broker.send("Q", "x", "1")
        for _ in range(2):
            await broker.refuse(Queue("Q"))
            assert await broker.texts("Q", "ActiveMQ.DLQ") == [[], ["x"]]
            (item,) = await broker.items("ActiveMQ.DLQ")
            assert await broker.view("ActiveMQ.DLQ").invoke("retryMessage", item["JMSMessageID"])
            assert await broker.texts("Q", "ActiveMQ.DLQ") == [["x"], []]
        (returned,) = await broker.items("Q")
        assert returned["JMSMessageID"] == item["JMSMessageID"]
        assert returned["IntProperties"] == {"n": 1}
        await broker.send("Q", "again", "1")
        assert await broker.texts("Q") == [["x"]], "the sender's repetition is a duplicate"
    async with opened() as broker:
        if keeps:
            assert await broker.texts("Q", "ActiveMQ.DLQ") == [["x"], []]


async def test_dead_letters_of_two_queues_with_one_duplicate_id(opened: Opened) -> None:
    async with opened() as broker:
        for name in "AB":
            await broker.send(name, name, "1")
            await broker.refuse(Queue(name))
        assert await broker.texts("ActiveMQ.DLQ") == [["A", "B"]]
        assert await broker.view("ActiveMQ.DLQ").invoke("retryMessages") == 2
        assert await broker.texts("A", "B", "ActiveMQ.DLQ") == [["A"], ["B"], []]


@pytest.mark.parametrize("duplicate_id", [None, "1"])
async def test_copies_of_one_message_are_moved_to_one_queue(
    opened: Opened, keeps: bool, duplicate_id: str | None
) -> None:
    async with opened() as broker:
        await broker.send("A,B", "x", duplicate_id)
        for name in "AB":
            assert await broker.view(name).invoke("moveMatchingMessagesTo", "", "C") == 1
        assert await broker.texts("A", "B", "C") == [[], [], ["x", "x"]]
        assert await broker.view("C").invoke("moveMatchingMessagesTo", "", "A") == 2
        assert await broker.texts("A", "C") == [["x", "x"], []]
    async with opened() as broker:
        if keeps:
            assert await broker.texts("A", "C") == [["x", "x"], []]


@pytest.mark.parametrize("duplicate_id", [None, "1"])
async def test_a_message_is_copied_twice_and_moved(
    opened: Opened, keeps: bool, duplicate_id: str | None
) -> None:
    async with opened() as broker:
        await broker.send("A", "x", duplicate_id)
        (item,) = await broker.items("A")
        message_id = item["JMSMessageID"]
        for _ in range(2):
            assert await broker.view("A").invoke("copyMessageTo", message_id, "B")
        assert await broker.view("A").invoke("moveMessageTo", message_id, "B")
        assert await broker.texts("A", "B") == [[], ["x"] * 3]
    async with opened() as broker:
        if keeps:
            assert await broker.texts("A", "B") == [[], ["x"] * 3]
