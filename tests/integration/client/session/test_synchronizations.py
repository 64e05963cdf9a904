"""Synchronizations and the events of local transactions."""

from __future__ import annotations

import anyio
import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    TransactionRolledBackException,
)
from pyjms.jms.api import LocalTransactionEventListener, Synchronization
from tests.kit.clients.embedded import Client

TRANSACTED = AcknowledgeMode.TRANSACTED


class Recorder(Synchronization, LocalTransactionEventListener):
    """Notes every call under `name`."""

    def __init__(self, calls: list[str], name: str = "") -> None:
        self.calls = calls
        self.name = name

    def before_end(self) -> None:
        self.calls.append(f"{self.name}before")

    async def after_commit(self) -> None:
        self.calls.append(f"{self.name}committed")

    def after_rollback(self) -> None:
        self.calls.append(f"{self.name}rolled back")

    def begin_event(self) -> None:
        self.calls.append("begin")

    def commit_event(self) -> None:
        self.calls.append("commit")

    def rollback_event(self) -> None:
        self.calls.append("rollback")


async def test_the_events_of_local_transactions(client: Client) -> None:
    session = await client.session(TRANSACTED)
    calls: list[str] = []
    session.set_local_transaction_event_listener(Recorder(calls))
    producer = await session.create_producer(session.create_queue("q"))
    await session.commit()
    await session.rollback()
    assert calls == []
    await producer.send(session.create_text_message("a"))
    await session.commit()
    assert calls == ["begin", "commit"]
    await producer.send(session.create_text_message("b"))
    await session.rollback()
    assert calls == ["begin", "commit", "begin", "rollback"]
    session.set_local_transaction_event_listener(None)
    await producer.send(session.create_text_message("c"))
    await session.commit()
    assert len(calls) == 4
    assert await client.left("q") == ["a", "c"]


async def test_synchronizations_serve_one_transaction_in_order(client: Client) -> None:
    session = await client.session(TRANSACTED)
    calls: list[str] = []
    for name in "12":
        session.add_synchronization(Recorder(calls, name))
    await session.commit()
    assert calls == ["1before", "2before", "1committed", "2committed"]
    calls.clear()
    session.add_synchronization(Recorder(calls))
    await session.rollback()
    await session.commit()
    assert calls == ["before", "rolled back"]
    calls.clear()
    session.add_synchronization(Recorder(calls))
    await session.close()
    assert calls == ["before", "rolled back"]
    with pytest.raises(IllegalStateException, match="closed"):
        session.add_synchronization(Recorder(calls))
    other = await client.session()
    for refused in (other.add_synchronization, other.set_local_transaction_event_listener):
        with pytest.raises(IllegalStateException, match="Not a transacted session"):
            refused(Recorder(calls))


async def test_the_last_work_of_a_transaction_is_committed_with_it(client: Client) -> None:
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(session.create_queue("q"))

    class Last(Synchronization):
        async def before_end(self) -> None:
            await producer.send(session.create_text_message("last"))

    session.add_synchronization(Last())
    assert await client.left("q") == []
    await session.commit()
    assert await client.left("q") == ["last"]


async def test_an_error_before_the_commit_rolls_back_and_one_after_it_is_logged(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.send("in", "a")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(session.create_queue("in"))
    assert client.delivery(await consumer.receive(1)) == "a#1"
    calls: list[str] = []

    class Failing(Recorder):
        def before_end(self) -> None:
            raise ValueError("not now")

        def after_rollback(self) -> None:
            raise ValueError("nor then")

    session.set_local_transaction_event_listener(Recorder(calls))
    session.add_synchronization(Failing(calls))
    session.add_synchronization(Recorder(calls))
    with pytest.raises(ValueError, match="not now"):
        await session.commit()
    assert calls == ["rollback", "rolled back"]
    assert "failed after the end of its transaction" in caplog.text
    assert client.delivery(await consumer.receive(5)) == "a#2*"
    session.add_synchronization(Failing(calls))
    await session.rollback()
    assert client.delivery(await consumer.receive(5)) == "a#3*"
    await session.commit()
    assert await client.left("in") == []


@pytest.mark.parametrize("call", ["commit", "rollback"])
async def test_the_end_of_a_transaction_cannot_end_it_again(client: Client, call: str) -> None:
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(session.create_queue("q"))
    calls: list[str] = []

    class Ending(Recorder):
        async def before_end(self) -> None:  # type: ignore[override]
            await getattr(session, call)()

    await producer.send(session.create_text_message("a"))
    session.add_synchronization(Ending(calls))
    with pytest.raises(IllegalStateException, match="before_end"):
        await session.commit()
    assert calls == ["rolled back"]
    assert await client.left("q") == []
    session.add_synchronization(Ending(calls))
    await session.rollback()
    await producer.send(session.create_text_message("b"))
    await session.commit()
    assert await client.left("q") == ["b"]


@pytest.mark.parametrize("fails", [False, True], ids=["closes", "closes and fails"])
async def test_a_session_closed_before_its_commit_is_rolled_back(
    client: Client, fails: bool
) -> None:
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(session.create_queue("q"))
    calls: list[str] = []

    class Closing(Recorder):
        async def before_end(self) -> None:  # type: ignore[override]
            await session.close()
            if fails:
                raise ValueError("closed")

    await producer.send(session.create_text_message("a"))
    session.add_synchronization(Closing(calls))
    error = ValueError if fails else TransactionRolledBackException
    with pytest.raises(error, match="closed"):
        await session.commit()
    assert calls == ["rolled back"]
    assert await client.left("q") == []


async def test_a_commit_that_is_cancelled_counts_as_one_and_is_seen_as_one(client: Client) -> None:
    session = await client.session(TRANSACTED)
    calls: list[str] = []
    with anyio.CancelScope() as scope:

        class Cancelling(Recorder):
            async def before_end(self) -> None:  # type: ignore[override]
                self.calls.append("before")
                scope.cancel()

        session.add_synchronization(Cancelling(calls))
        session.add_synchronization(Recorder(calls, "2"))
        await session.commit()
    assert calls == ["before", "2before", "committed", "2committed"]


async def test_a_cached_session_forgets_listener_and_synchronizations(client: Client) -> None:
    factory = CachingConnectionFactory(client.factory())
    calls: list[str] = []
    connection = await factory.create_connection()
    session = await connection.create_session(True)
    session.set_local_transaction_event_listener(Recorder(calls))
    session.add_synchronization(Recorder(calls))
    await session.close()
    assert calls == ["begin", "before", "rollback", "rolled back"]
    again = await connection.create_session(True)
    await again.create_producer(again.create_queue("q"))
    await again.commit()
    await again.close()
    assert len(calls) == 4
    await factory.destroy()


@pytest.mark.parametrize("end", ["connection closed", "connection lost"])
async def test_a_transaction_that_only_the_broker_ends_is_rolled_back(
    client: Client, end: str
) -> None:
    """Before its commit: messages claimed with it are released."""
    session = await client.session(TRANSACTED)
    calls: list[str] = []
    session.add_synchronization(Recorder(calls))
    if end == "connection closed":
        await session.connection.close()
    else:
        assert await client.broker.drop_connections() == 1
        with pytest.raises(ConnectionFailedException):
            await session.commit()
    await client.settle()
    assert calls == ["rolled back"]
