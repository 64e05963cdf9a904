"""`jms.alwaysSessionAsync=false`: the listeners of all sessions of a connection take turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pyjms.client.xa import XAConnectionFactory
from pyjms.jms.destination import Queue
from pyjms.jms.xa import Xid
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.waiting import until

TURNS = "jms.alwaysSessionAsync=false"
QUEUES = ("a", "b", "c")


@pytest.mark.fact("activemq-edges N0", "activemq-edges N19")
@pytest.mark.parametrize(
    ("query", "at_once"),
    [("", 3), ("jms.dispatchAsync=false", 3), (TURNS, 1), (f"{TURNS}&jms.statsEnabled=true", 1)],
)
async def test_listeners_of_a_connection_that_run_at_once(
    client: Client, query: str, at_once: int
) -> None:
    connection = await client.connect(query=query, start=False)
    running, most = 0, 0
    handled: list[str | None] = []
    tasks: set[str | None] = set()

    async def listener(message: Any) -> None:
        nonlocal running, most
        tasks.add(anyio.get_current_task().name)
        running += 1
        most = max(most, running)
        await client.settle()
        running -= 1
        handled.append(message.text)

    for name in QUEUES:
        session = await connection.create_session()
        consumer = await session.create_consumer(Queue(name))
        await consumer.set_message_listener(listener)
    for name in QUEUES:
        await client.send(name, f"{name}1", f"{name}2")
    await client.settle()
    await connection.start()
    await until(lambda: len(handled) == 2 * len(QUEUES))
    assert most == at_once
    assert sorted(map(str, handled)) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert len(tasks) == len(QUEUES)
    assert all(str(name).startswith("ActiveMQ Session Task-") for name in tasks)


async def test_a_listener_may_wait_for_a_response_of_the_broker(client: Client) -> None:
    connection = await client.connect(query=TURNS)
    for name, target in (("a", "b"), ("b", "c")):
        session = await connection.create_session()
        producer = await session.create_producer(Queue(target))

        async def listener(message: Any, session: Any = session, producer: Any = producer) -> None:
            await producer.send(session.create_text_message(f"{message.text}!"))

        consumer = await session.create_consumer(Queue(name))
        await consumer.set_message_listener(listener)
    await client.send("a", "x")
    last = await (await connection.create_session()).create_consumer(Queue("c"))
    assert text_of(await last.receive(5)) == "x!!"


Call = Callable[[Any, Any, Any], Awaitable[object]]
CALLS: dict[str, Call] = {
    "consumer.close": lambda connection, session, consumer: consumer.close(),
    "session.close": lambda connection, session, consumer: session.close(),
    "connection.stop": lambda connection, session, consumer: connection.stop(),
    "connection.close": lambda connection, session, consumer: connection.close(),
}


@pytest.mark.parametrize("by", ["the listener", "another task"])
@pytest.mark.parametrize("call", sorted(CALLS))
async def test_what_waits_for_its_turn_can_be_closed(client: Client, call: str, by: str) -> None:
    connection = await client.connect(query=TURNS)
    session = await connection.create_session()
    consumer = await session.create_consumer(Queue("b"))
    called: list[str | None] = []
    begun, closed, release = anyio.Event(), anyio.Event(), anyio.Event()

    async def close() -> None:
        await client.send("b", "waits")
        await client.settle()
        async with anyio.create_task_group() as tasks:
            call_it: Any = CALLS[call]
            tasks.start_soon(call_it, connection, session, consumer)
            if by == "another task" and call.startswith("connection"):
                await client.settle()
                release.set()  # it also waits for the listener that runs
        closed.set()

    async def first(message: Any) -> None:
        begun.set()
        if by == "the listener":
            await client.send("b", "waits")
            await client.settle()
            await CALLS[call](connection, session, consumer)
            closed.set()
        else:
            await release.wait()

    async def second(message: Any) -> None:
        called.append(message.text)

    await consumer.set_message_listener(second)
    other = await (await connection.create_session()).create_consumer(Queue("a"))
    await other.set_message_listener(first)
    await client.send("a", "begin")
    await begun.wait()
    if by == "another task":
        await close()
    await closed.wait()
    release.set()
    await client.settle()
    assert called == []
    if call != "connection.stop":
        assert await client.left("b") == ["waits"]
    else:
        await connection.start()
        await client.settle()
        assert called == ["waits"]


async def test_a_listener_of_a_branch_takes_its_turn(client: Client) -> None:
    url = f"{client.broker.url}&{TURNS}"
    async with await XAConnectionFactory(url).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        xid = Xid(1, b"global")
        await session.xa_resource.start(xid)
        heard = anyio.Event()
        consumer = await session.create_consumer(Queue("a"))
        await consumer.set_message_listener(lambda message: heard.set())
        await client.send("a", "x")
        await heard.wait()
        await session.xa_resource.end(xid)
        await session.xa_resource.commit(xid, one_phase=True)
    assert await client.left("a") == []
