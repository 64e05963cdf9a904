"""A session that two tasks, or two event loops, use at once is noticed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, TransactionRolledBackException
from pyjms.jms.api import Synchronization
from pyjms.jms.destination import Queue
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.waiting import until

Q = Queue("q")
TRANSACTED = AcknowledgeMode.TRANSACTED


class Holds(Synchronization):
    """Keeps the task in `commit` until `release` is set."""

    def __init__(self, within: Callable[[], Awaitable[object]] | None = None) -> None:
        self.entered, self.release = anyio.Event(), anyio.Event()
        self._within = within

    async def before_end(self) -> None:
        if self._within is not None:
            await self._within()
        self.entered.set()
        await self.release.wait()


CALLS: dict[str, Callable[[Any, Any, Any], Awaitable[object]]] = {
    "send()": lambda session, producer, consumer: producer.send(session.create_text_message("x")),
    "receive()": lambda session, producer, consumer: consumer.receive(0),
    "commit()": lambda session, producer, consumer: session.commit(),
    "rollback()": lambda session, producer, consumer: session.rollback(),
}


@pytest.mark.fact("jms-api 12.1")
@pytest.mark.parametrize("call", CALLS)
async def test_no_task_works_while_another_one_commits(client: Client, call: str) -> None:
    session = await client.session(TRANSACTED)
    producer, consumer = await session.create_producer(Q), await session.create_consumer(Q)
    holds = Holds()
    session.add_synchronization(holds)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.commit, name="the committer")
        await holds.entered.wait()
        with pytest.raises(IllegalStateException) as caught:
            await CALLS[call](session, producer, consumer)
        holds.release.set()
    assert f"The session {session.session_id} is used twice at the same time" in str(caught.value)
    assert f"called {call}, and task 'the committer' is in commit()" in str(caught.value)
    assert "create one session for each task" in str(caught.value)
    await CALLS[call](session, producer, consumer)  # one after the other is fine


async def test_a_synchronization_works_on_in_the_tasks_that_it_starts(client: Client) -> None:
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(Q)

    async def send_in_a_task() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.send, session.create_text_message("x"))

    holds = Holds(send_in_a_task)
    holds.release.set()
    session.add_synchronization(holds)
    await session.commit()
    consumer = await session.create_consumer(Q)
    assert text_of(await consumer.receive(10)) == "x"


@pytest.mark.parametrize("call", ["commit", "rollback", "recover"])
async def test_no_unit_of_work_ends_while_another_task_receives(client: Client, call: str) -> None:
    session = await client.session(AcknowledgeMode.CLIENT if call == "recover" else TRANSACTED)
    consumer = await session.create_consumer(Q)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.receive)
        await until(lambda: bool(consumer.receivers))
        with pytest.raises(IllegalStateException, match=r"another task waits in receive\(\)"):
            await getattr(session, call)()
        await session.close()


@pytest.mark.fact("jms-api 2.13")
async def test_close_is_allowed_while_another_task_commits(client: Client) -> None:
    session = await client.session(TRANSACTED)
    holds = Holds()
    outcomes: list[str] = []
    session.add_synchronization(holds)

    async def commit() -> None:
        with pytest.raises(TransactionRolledBackException) as caught:
            await session.commit()
        outcomes.append(str(caught.value))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commit)
        await holds.entered.wait()
        tasks.start_soon(session.close)
        await until(lambda: session.is_closed)
        holds.release.set()
    assert outcomes == ["The session was closed before the commit"]


@pytest.mark.fact("jms-api 12.1", "activemq-edges 11.24")
@pytest.mark.parametrize("call", ["send()", "receive()", "rollback()"])
async def test_another_event_loop_is_refused(client: Client, call: str) -> None:
    session = await client.session(TRANSACTED)
    producer, consumer = await session.create_producer(Q), await session.create_consumer(Q)
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT

    async def there() -> None:
        with pytest.raises(IllegalStateException) as caught:
            await CALLS[call](session, producer, consumer)
        assert f"called {call}, and it belongs to the event loop of thread" in str(caught.value)
        assert "'MainThread'" in str(caught.value)

    await anyio.to_thread.run_sync(partial(anyio.run, there))


async def test_a_completion_listener_sends_while_commit_waits_for_it(client: Client) -> None:
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(Q)

    class Listener:
        async def on_completion(self, message: Any) -> None:
            await producer.send(session.create_text_message("from the listener"))

        async def on_exception(self, message: Any, error: Exception) -> None:
            raise error

    await producer.send(session.create_text_message("x"), completion_listener=Listener())
    await session.commit()
    consumer = await session.create_consumer(Q)
    assert [text_of(await consumer.receive(10)) for _ in range(2)] == ["x", "from the listener"]
