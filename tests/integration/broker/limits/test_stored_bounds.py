"""A broker with a store: no client makes it hold, or do at once, more than it can."""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import AckType, MessageDispatch, ProducerInfo
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.filters.virtual_destinations import VirtualTopic
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService, IOExceptionHandler
from pyjms_broker.store.journal.disk import OS_DISK
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from tests.kit.clients.raw import RawClient
from tests.kit.values import present

MEMORY = 400_000
BODY = "x" * 4000
_numbers = itertools.count(1)


class Persistent:
    """A broker that keeps its messages, and clients of it."""

    def __init__(self, directory: Path, raw_client: Any, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._raw_client = raw_client
        self._stack = stack
        self.service: BrokerService

    async def start(self) -> BrokerService:
        self.service = BrokerService(
            f"bounds-{next(_numbers)}",
            data_directory=self._directory,
            store_directory=self._directory / "store",
            memory_limit=MEMORY,
            policies=PolicyMap(
                [
                    PolicyEntry(destination=kind("Urgent"), prioritized_messages=True)
                    for kind in (Queue, Topic)
                ]
            ),
        )
        await self._stack.enter_async_context(self.service)
        return self.service

    async def client(self, client_id: str | None = None) -> Any:
        client = self._raw_client(create_transport(self.service.vm_uri))
        await client.open(client_id)
        self._stack.push_async_callback(client.close)
        return client


@pytest.fixture
async def persistent(tmp_path: Path, raw_client: type[RawClient]) -> AsyncIterator[Persistent]:
    async with AsyncExitStack() as stack:
        made = Persistent(tmp_path, raw_client, stack)
        await made.start()
        yield made


async def drain(client: Any, count: int, used: Callable[[], int]) -> int:
    """Acknowledge all messages, some of them late; return the maximum memory usage."""
    highest = 0
    while count:
        unacknowledged: list[MessageDispatch] = [await client.dispatched()]
        await client.request(ProducerInfo(await client.producer()))  # all on its way is here
        highest = max(highest, used())
        while client._dispatches:
            unacknowledged.append(client._dispatches.pop(0))
        for dispatch in unacknowledged:
            await client.ack(dispatch, AckType.INDIVIDUAL)
        count -= len(unacknowledged)
    return highest


@pytest.mark.parametrize("durable", [False, True])
async def test_what_a_consumer_leaves_unacknowledged_is_bounded(
    persistent: Persistent, durable: bool
) -> None:
    client = await persistent.client("c")
    where = Topic("T") if durable else Queue("Q")
    fields: dict[str, Any] = {"subscription_name": "s"} if durable else {}
    fields["prefetch_size"] = 1_000_000
    if durable:
        await client.remove(await client.consumer(where, **fields))
    await client.send(where, *[BODY] * 1000)
    memory = persistent.service.system_usage.memory
    assert memory.used < MEMORY
    await client.consumer(where, **fields)
    page = 200 * (len(BODY) + 1100)
    assert await drain(client, 1000, lambda: memory.used) < MEMORY + page
    assert memory.used == 0


@pytest.mark.parametrize("durable", [False, True])
async def test_urgent_messages_in_the_store_wait_for_memory_too(
    persistent: Persistent, *, durable: bool
) -> None:
    """A message of low priority, in memory since before, must not let them all be read."""
    where = Topic("Urgent") if durable else Queue("Urgent")
    client = await persistent.client("c")
    fields: dict[str, Any] = {"subscription_name": "s"} if durable else {}
    await client.remove(await client.consumer(where, **fields))
    producer = await client.producer()
    for number in range(600):
        message = client.text(producer, where, BODY)
        message.priority = 9 if number > 50 else 0
        await client.request(message)
    await client.consumer(where, prefetch_size=1_000_000, **fields)
    sender = await persistent.client()
    for _ in range(20):
        await sender.send(where, BODY)  # whose memory is not all in flight
    assert persistent.service.system_usage.memory.used < MEMORY


async def test_very_many_expired_messages_let_others_have_their_turn(
    persistent: Persistent,
) -> None:
    async with VirtualClock() as clock:
        client = await persistent.client()
        producer = await client.producer()
        for _ in range(1500):
            message = client.text(producer, Queue("Q"), "old")
            message.expiration = _clock.time_ms() + 1000
            client.send_command(message)
        await client.send(Queue("Q"), "good")
        await clock.advance(2)
        await client.consumer(Queue("Q"))
        expired = persistent.service.region_broker.destinations()[Queue("Q")].statistics
        assert 0 < expired.expired < 1500  # and the answer has come already
        assert (await client.message()).content is not None
        assert expired.expired == 1500
        dead = persistent.service.region_broker.destinations()[Queue("ActiveMQ.DLQ")]
        assert dead.statistics.messages == 1500


async def test_malformed_properties_do_not_stop_a_queue(persistent: Persistent) -> None:
    async with VirtualClock() as clock:
        client = await persistent.client()
        message = client.text(await client.producer(), Queue("Q"), "bad")
        message.expiration = _clock.time_ms() + 1000
        message.marshalled_properties = b"\0\0\0\5garbage"
        await client.request(message)
        await client.send(Queue("Q"), "good")
        await clock.advance(2)
        await client.consumer(Queue("Q"))
        await client.message()
        there = persistent.service.region_broker.destinations()
        assert there[Queue("ActiveMQ.DLQ")].statistics.messages == 1


async def test_a_subscription_that_the_store_refuses_leaves_no_trace(
    persistent: Persistent,
) -> None:
    good, bad = await persistent.client("A"), await persistent.client("A:b")
    topic = Topic("T")
    await good.consumer(topic, subscription_name="b:c")
    for name in ("c", "a\ud800b"):
        for _ in range(2):
            with pytest.raises(JMSException):
                await bad.consumer(topic, subscription_name=name)
    await good.send(topic, "one")
    await good.message()
    assert persistent.service.region_broker.destinations()[topic].statistics.consumers == 1
    # to a pattern: the topics that come do without it
    await good.consumer(Topic("all.>"), subscription_name="b:d")
    await bad.consumer(Topic("all.>"), subscription_name="d")
    await good.send(Topic("all.new"), "two")
    await good.message()


async def test_a_name_that_no_file_can_hold_is_refused(persistent: Persistent) -> None:
    client = await persistent.client()
    for where in (Queue("a\ud800b"), Topic("a\ud800b")):
        with pytest.raises(JMSException, match="UTF-8"):
            await client.send(where, "x")
    await client.send(Queue("fine"), "x")


class BrokenDisk:
    """The real one, until it is broken: then nothing can be written."""

    def __init__(self) -> None:
        self.is_broken = False

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "simulated")
        OS_DISK.write(fd, data, offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(OS_DISK, name)


async def test_a_failed_store_does_not_count_as_full(
    tmp_path: Path, raw_client: type[RawClient]
) -> None:
    disk: Any = BrokenDisk()
    service = BrokerService(
        f"bounds-{next(_numbers)}",
        data_directory=tmp_path,
        persistence_adapter=KahaDBPersistenceAdapter(tmp_path, disk=disk),
        virtual_destinations=[VirtualTopic(drop_on_resource_limit=True)],
        io_exception_handler=IOExceptionHandler(ignore_all_errors=True),
    )
    await service.start()
    try:
        client = raw_client(create_transport(service.vm_uri))
        await client.open()
        await client.destination(Queue("Consumer.A.VirtualTopic.T"))
        producer = await client.producer()
        disk.is_broken = True
        for _ in range(2):  # while it fails, and after that
            message = client.text(producer, Topic("VirtualTopic.T"), "x")
            message.response_required = True
            with pytest.raises(JMSException, match="journal"):
                answer = service.region_broker.send(ProducerExchange(ConnectionContext()), message)
                ended = anyio.Event()
                answer.then(partial(lambda ended, _: ended.set(), ended))
                await ended.wait()
                raise present(answer.error)
        await client.close()
    finally:
        await service.stop()
