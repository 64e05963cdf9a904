"""A message that a client of a soak refuses as a duplicate has been handled, and is not lost."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pyjms.aio import AcknowledgeMode
from pyjms.wire.openwire.commands import MessageAck
from pyjms_broker.policy.dead_letter import IndividualDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from tests.kit.failures.cutting_proxy import TO_BROKER, CuttingProxy, cutting_proxy, of_type
from tests.kit.soak.account import Account, Finding
from tests.kit.soak.clients.links import Links
from tests.kit.soak.clients.readers import note, read
from tests.kit.soak.clients.senders import Numbers, destination_of, send
from tests.kit.soak.events import Event, EventLog, read_events
from tests.kit.soak.flows import FLOWS, Reader
from tests.kit.waiting import until

(FLOW,) = (flow for flow in FLOWS if flow.name == "client")
READER, DEAD_LETTERS = FLOW.readers


@asynccontextmanager
async def reading(links: Links, reader: Reader) -> AsyncIterator[None]:
    """Have a client of the soak read in the background."""

    async def consume() -> None:
        async with links.connect(reader.endpoint.name, direct=False) as link:
            await read(link, reader, random.Random(1))

    links.reader_opens(reader.endpoint.name)
    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await links.wait_for_readers()
        yield
        group.cancel_scope.cancel()


async def send_one(links: Links) -> None:
    numbers = Numbers(f"{FLOW.name}/test", FLOW.lanes)
    async with links.connect("sender", direct=True) as link, anyio.create_task_group() as group:
        group.start_soon(send, link, FLOW, numbers, random.Random(1))
        while not numbers.sent:
            await anyio.lowlevel.checkpoint()
        links.finishing.set()


def account_for(events: list[Event]) -> Account:
    account = Account(FLOWS)
    account.take(events)
    account.close()
    return account


def is_dead(log: Path) -> bool:
    events = read_events([log])
    return any(each.fields[:1] == (DEAD_LETTERS.endpoint.name,) for each in events)


async def receive_and_leave(links: Links) -> None:
    """Receive the message as a client does that is killed before it acknowledges."""
    async with links.connect("killed", direct=True) as link:
        session = await link.connection.create_session(False, AcknowledgeMode.CLIENT)
        consumer = await session.create_consumer(destination_of(READER.destination))
        await link.connection.start()
        message = await consumer.receive()
        assert message is not None
        note(link, "open", READER, message)


async def lose_an_acknowledgement(port: int, proxy: CuttingProxy, log: Path) -> None:
    """Let a client acknowledge in vain, another one receive and leave, and the first return."""
    events = EventLog(log)
    links = Links(f"tcp://127.0.0.1:{port}", events)
    cut_links = Links(proxy.url, events)
    proxy.cut_at(TO_BROKER, 0, at=of_type(MessageAck.TYPE))
    async with reading(links, DEAD_LETTERS), reading(cut_links, READER):
        proxy.is_open = False  # it must not be back too early
        await send_one(links)
        await proxy.wait_for_cuts(1)
        await receive_and_leave(links)
        proxy.is_open = True
        await until(lambda: is_dead(log))
    events.close()


async def test_a_message_that_its_consumer_refuses_as_a_duplicate_is_not_lost(
    tmp_path: Path,
) -> None:
    strategy = IndividualDeadLetterStrategy()
    policy = PolicyEntry(
        destination=destination_of("queue://soak.>"), dead_letter_strategy=strategy
    )
    service = BrokerService("refusing", persistent=False, policies=PolicyMap([policy]))
    service.add_connector("tcp://127.0.0.1:0")
    log = tmp_path / "client"
    async with service:
        port = int(service.connectors[0].connect_uri.split("?")[0].rsplit(":", 1)[1])
        async with cutting_proxy(port) as proxy:
            await lose_an_acknowledgement(port, proxy, log)
    events = list(read_events([log]))
    account = account_for(events)
    assert account.findings == []
    assert account.counts["dead letters"] == account.counts["confirmed"] == 1
    kinds = [each.kind for each in events if each.fields[:1] == (READER.endpoint.name,)]
    assert kinds == ["open", "end", "open"]
    without = [each for each in events if each.fields[:1] != (DEAD_LETTERS.endpoint.name,)]
    assert account_for(without).findings == [Finding("lost", "client: client/test 0")]
