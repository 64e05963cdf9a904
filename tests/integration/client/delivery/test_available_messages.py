"""Listeners for messages that can be received at once: ActiveMQ's MessageAvailableListener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import JmsPoolConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Queue
from tests.kit.clients.embedded import Client

Q = Queue("q")


class Taking:
    """Receives one message in each call."""

    def __init__(self, client: Client, expected: int = 0) -> None:
        self.client = client
        self.expected = expected
        self.consumers: list[Any] = []
        self.texts: list[str | None] = []
        self.all_taken = anyio.Event()

    async def __call__(self, consumer: Any) -> None:
        self.consumers.append(consumer)
        self.texts.append(self.client.delivery(await consumer.receive(0)))
        if len(self.texts) == self.expected:
            self.all_taken.set()


async def test_each_message_is_announced_and_can_be_received_in_the_call(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Q)
    listener: Any = Taking(client, 3)
    await consumer.set_message_available_listener(listener)
    assert (consumer.message_available_listener is listener) is True
    await client.send(Q, "a", "b", "c")
    await listener.all_taken.wait()
    await client.settle()
    assert listener.texts == ["a#1", "b#1", "c#1"]
    assert listener.consumers == [consumer] * 3
    await session.close()
    assert await client.left(Q) == []


async def test_messages_before_the_listener_or_the_start_are_announced(client: Client) -> None:
    await client.send(Q, "a", "b")
    connection = await client.connect(start=False)
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Q)
    listener = Taking(client, 2)
    await consumer.set_message_available_listener(listener)
    await client.settle()
    assert listener.texts == []
    await connection.start()
    await listener.all_taken.wait()
    await consumer.set_message_available_listener(None)
    await client.send(Q, "c")
    await client.settle()
    assert listener.texts == ["a#1", "b#1"]
    later = Taking(client, 1)
    await consumer.set_message_available_listener(later)
    await later.all_taken.wait()
    assert later.texts == ["c#1"]


async def test_what_was_received_meanwhile_is_not_announced(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Q)
    calls: list[list[str | None]] = []

    async def drain(consumer: Any) -> None:
        taken = []
        while (message := await consumer.receive_no_wait()) is not None:
            taken.append(client.text(message))
        calls.append(taken)

    await client.send(Q, "a", "b", "c")
    await client.settle()
    await consumer.set_message_available_listener(drain)
    await client.settle()
    assert calls == [["a", "b", "c"]]


async def test_a_plain_function_may_wake_a_task(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Q)
    available = anyio.Event()
    await consumer.set_message_available_listener(lambda _: available.set())
    await client.send(Q, "x")
    await available.wait()
    assert client.text(await consumer.receive_no_wait()) == "x"


async def test_a_rolled_back_message_is_announced_again(client: Client) -> None:
    session = await client.session(
        AcknowledgeMode.TRANSACTED, query="jms.redeliveryPolicy.initialRedeliveryDelay=0"
    )
    consumer = await session.create_consumer(Q)
    first, second = Taking(client, 1), Taking(client, 1)
    await consumer.set_message_available_listener(first)
    await client.send(Q, "x")
    await first.all_taken.wait()
    await consumer.set_message_available_listener(second)
    await session.rollback()
    await second.all_taken.wait()
    await session.commit()
    assert (first.texts, second.texts) == (["x#1"], ["x#2*"])


async def test_its_failure_is_logged_and_the_next_message_announced(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Q)
    called_twice, calls = anyio.Event(), []

    def fail(consumer: Any) -> None:
        calls.append(consumer)
        if len(calls) == 2:
            called_twice.set()
        raise LookupError("in the listener")

    await consumer.set_message_available_listener(fail)
    await client.send(Q, "a", "b")
    await called_twice.wait()
    assert caplog.text.count("LookupError: in the listener") == 2
    assert client.text(await consumer.receive(5.0)) == "a"


async def test_it_excludes_a_message_listener(client: Client) -> None:
    session = await client.session()
    consumer, other = await session.create_consumer(Q), await session.create_consumer(Queue("o"))
    await consumer.set_message_available_listener(print)
    with pytest.raises(IllegalStateException, match="when a message available listener is set"):
        await consumer.set_message_listener(print)
    await consumer.set_message_available_listener(None)
    assert consumer.message_available_listener is None
    await consumer.set_message_listener(print)
    for each in (consumer, other):
        with pytest.raises(IllegalStateException, match="when a MessageListener is set"):
            await each.set_message_available_listener(print)
    await other.close()
    with pytest.raises(IllegalStateException, match="The Consumer is closed"):
        await other.set_message_available_listener(print)


async def test_without_prefetch_it_is_refused(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_pull_consumer(Q)
    with pytest.raises(JMSException, match="cannot be announced with a prefetch size of zero"):
        await consumer.set_message_available_listener(print)


async def test_close_waits_for_it_unless_it_closes(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Q)
    entered, leave, ended = anyio.Event(), anyio.Event(), []

    async def listen(given: Any) -> None:
        entered.set()
        await leave.wait()
        ended.append("listener")
        await given.close()

    await consumer.set_message_available_listener(listen)
    await client.send(Q, "a", "b")
    await entered.wait()

    async def close() -> None:
        await consumer.close()
        ended.append("close")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        await client.settle()
        assert ended == []
        leave.set()
    assert ended == ["listener", "close"]
    await session.close()
    assert await client.left(Q) == ["a", "b"]


@pytest.mark.parametrize("kind", ["context", "caching", "pool", "statistics"])
async def test_handles_announce_themselves(client: Client, kind: str) -> None:
    target = client.factory(stats_enabled=kind == "statistics")
    factories: dict[str, Callable[[], Any]] = {
        "caching": lambda: CachingConnectionFactory(target, cache_consumers=True),
        "pool": lambda: JmsPoolConnectionFactory(target),
    }
    factory = factories.get(kind, lambda: target)()
    listener = Taking(client, 1)
    async with await factory.create_context() as context:
        session = context if kind == "context" else await context.session()
        consumer = await session.create_consumer(Q)
        await context.start()
        await consumer.set_message_available_listener(listener)
        await client.send(Q, "x")
        await listener.all_taken.wait()
        assert listener.texts == ["x#1"]
        assert listener.consumers == [consumer]
        await consumer.close()
        await client.send(Q, "y")
        await client.settle()
    if kind == "caching":
        await factory.destroy()
    elif kind == "pool":
        await factory.stop()
    assert listener.texts == ["x#1"]
    assert await client.left(Q) == ["y"]
