"""Messages that expire while a transaction of their consumer is open."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.client.session import ActiveMQSession
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from tests.kit.brokers.comparison import OpenConnection
from tests.kit.waiting import until

pytestmark = pytest.mark.activemq

BRIEF = 0.3
"""Seconds that a message lives which expires in the transaction."""


async def send(session: ActiveMQSession, destination: Any, text: str, lifetime: float = 60) -> Any:
    producer = await session.create_producer(destination)
    message = session.create_text_message(text)
    await producer.send(message, time_to_live=lifetime)
    await producer.close()
    return message


async def expired(message: Any) -> None:
    """Wait until a message has expired."""
    await until(lambda: _clock.time_ms() > message.expiration + 20, turn=lambda: _clock.sleep(0.01))


async def consumer_of(session: ActiveMQSession, destination: Any) -> Any:
    if destination.is_topic:
        return await session.create_durable_subscriber(destination, "s")
    return await session.create_consumer(destination)


async def rest(session: ActiveMQSession, destination: Any, consumer: Any, last: str) -> list[str]:
    """Return the texts up to that of a message that is sent now."""
    await send(session, destination, last)
    found: list[str] = []
    while last not in found:
        found.append((await consumer.receive(5)).text)
    return found


@pytest.fixture(params=[Queue, Topic], ids=["queue", "durable"])
def destination(request: pytest.FixtureRequest, name: str) -> Any:
    return request.param(name)


@pytest.fixture
async def sessions(connect: OpenConnection, name: str) -> Any:
    """A transacted session and one that is not."""
    connection = await connect(client_id=name, start=True)
    transacted = await connection.create_session(transacted=True)
    return transacted, await (await connect()).create_session()


async def dead_letters(session: Any, name: str) -> list[str]:
    """Return the texts of this test's dead letters, in order."""
    browser = await session.create_browser(Queue("ActiveMQ.DLQ"))
    found = [m async for m in browser]
    await browser.close()
    return [m.text for m in found if name in str(m.original_destination)]


@pytest.mark.fact("activemq-broker Q32")
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_what_waits_in_the_prefetch_expires(
    sessions: Any, destination: Any, name: str, end: str
) -> None:
    transacted, plain = sessions
    consumer = await consumer_of(transacted, destination)
    await send(plain, destination, "first")
    brief = await send(plain, destination, "brief", BRIEF)
    await send(plain, destination, "second")
    assert (await consumer.receive(5)).text == "first"
    await expired(brief)
    assert (await consumer.receive(5)).text == "second"
    await getattr(transacted, end)()
    expected = ["last"] if end == "commit" else ["first", "second", "last"]
    assert await rest(plain, destination, consumer, "last") == expected
    await transacted.commit()
    await until_letters(plain, name, ["brief"])


async def until_letters(session: ActiveMQSession, name: str, expected: list[str]) -> None:
    with _clock.timeout(5):
        while await dead_letters(session, name) != expected:
            await _clock.sleep(0.05)
    assert await dead_letters(session, name) == expected


@pytest.mark.fact("activemq-broker Q32")
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_what_was_received_in_time_expires_only_by_a_rollback(
    sessions: Any, destination: Any, name: str, end: str
) -> None:
    transacted, plain = sessions
    consumer = await consumer_of(transacted, destination)
    brief = await send(plain, destination, "brief", BRIEF)
    await send(plain, destination, "second")
    assert (await consumer.receive(5)).text == "brief"
    await expired(brief)
    assert (await consumer.receive(5)).text == "second"
    await getattr(transacted, end)()
    expected = ["last"] if end == "commit" else ["second", "last"]
    assert await rest(plain, destination, consumer, "last") == expected
    await transacted.commit()
    await until_letters(plain, name, [] if end == "commit" else ["brief"])


@pytest.mark.fact("activemq-broker Q32")
async def test_what_is_behind_the_window_expires_when_the_transaction_ends(
    sessions: Any, destination: Any, name: str
) -> None:
    transacted, plain = sessions
    narrow = type(destination)(f"{name}?consumer.prefetchSize=1")
    consumer = await consumer_of(transacted, narrow)
    await send(plain, destination, "first")
    await send(plain, destination, "second")
    brief = await send(plain, destination, "brief", BRIEF)
    assert (await consumer.receive(5)).text == "first"
    await expired(brief)
    await transacted.rollback()
    assert await rest(plain, destination, consumer, "last") == ["first", "second", "last"]
    await transacted.commit()
    await until_letters(plain, name, ["brief"])


@pytest.mark.fact("activemq-broker Q32")
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_consumer_that_closes_in_its_transaction(
    sessions: Any, destination: Any, name: str, end: str
) -> None:
    transacted, plain = sessions
    consumer = await consumer_of(transacted, destination)
    brief = await send(plain, destination, "brief", BRIEF)
    await send(plain, destination, "second")
    assert (await consumer.receive(5)).text == "brief"
    await consumer.close()
    await expired(brief)
    await getattr(transacted, end)()
    again = await consumer_of(transacted, destination)
    assert await rest(plain, destination, again, "last") == ["second", "last"]
    await transacted.commit()
    await until_letters(plain, name, [] if end == "commit" else ["brief"])


@pytest.mark.fact("activemq-broker X10")
async def test_what_expires_before_its_own_commit_is_not_delivered(
    connect: OpenConnection, destination: Any, name: str
) -> None:
    plain = await (await connect(client_id=name)).create_session()
    transacted = await (await connect()).create_session(transacted=True)
    consumer = await consumer_of(plain, destination)
    await send(transacted, destination, "first")
    brief = await send(transacted, destination, "brief", BRIEF)
    await send(transacted, destination, "second")
    await expired(brief)
    await transacted.commit()
    assert await rest(plain, destination, consumer, "last") == ["first", "second", "last"]
    await until_letters(plain, name, ["brief"])
