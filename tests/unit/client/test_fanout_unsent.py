"""A send over `fanout:` waits for the brokers that count, and for no other; or it is not sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Topic
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ActiveMQTextMessage, ConsumerInfo
from tests.kit.brokers.fake import FakeBrokers, FakeTransport, brokers
from tests.kit.clients.scripted_broker import clock

__all__ = ["brokers", "clock"]


class Sender:
    """Sends messages to a topic, and records the outcome of each."""

    def __init__(self, session: ActiveMQSession, producer: ActiveMQMessageProducer) -> None:
        self.outcomes: list[str] = []
        self._session = session
        self._producer = producer

    async def send(self, text: str) -> None:
        try:
            await self._producer.send(self._session.create_text_message(text))
        except JMSException as error:
            self.outcomes.append(str(error))
        else:
            self.outcomes.append("sent")


@asynccontextmanager
async def sender(options: str) -> AsyncIterator[Sender]:
    url = f"fanout:(static:(fake://a,fake://b))?{options}&jms.watchTopicAdvisories=false"
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(Topic("t"))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        await session.create_consumer(Topic("other"))  # at the primary broker only
        await _clock.sleep(0.01)  # until both are connected
        yield Sender(session, producer)


def at(brokers: FakeBrokers, name: str) -> FakeTransport:
    return [each for each in brokers.connections if each.name == name][-1]


def primary_of(brokers: FakeBrokers) -> str:
    consuming = (
        c for c in brokers.connections for each in c.sent if isinstance(each, ConsumerInfo)
    )
    return next(consuming).name


def texts(connection: FakeTransport) -> list[object]:
    sent = [command for command in connection.sent if isinstance(command, ActiveMQTextMessage)]
    return [command.content for command in sent]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("attempts", [0, 2], ids=["no limit", "given up"])
async def test_nobody_waits_for_a_lost_broker_while_there_are_enough_others(
    brokers: FakeBrokers, attempts: int
) -> None:
    async with sender(f"minAckCount=1&maxReconnectAttempts={attempts}") as work:
        primary = primary_of(brokers)
        lost = at(brokers, "b" if primary == "a" else "a")
        lost.is_broken = True
        brokers.down = {lost.name}
        async with anyio.create_task_group() as group:
            group.start_soon(work.send, "x")
            await _clock.sleep(0.001)
            assert work.outcomes == []  # the loss is not reported yet
            lost.fail()
            await _clock.sleep(0.001)
            assert work.outcomes == ["sent"]
        await _clock.sleep(600)
        await work.send("y")
        assert work.outcomes == ["sent", "sent"]
        assert len(texts(at(brokers, primary))) == 2


@pytest.mark.usefixtures("clock")
async def test_a_send_that_is_cancelled_in_an_outage_is_sent_to_no_broker_later(
    brokers: FakeBrokers,
) -> None:
    async with sender("minAckCount=2") as work:
        brokers.down = {"a", "b"}
        for name in ("a", "b"):
            at(brokers, name).fail()
        await _clock.sleep(0.001)
        with _clock.timeout(5):
            await work.send("cancelled")
        brokers.down = set()
        await _clock.sleep(60)
        await work.send("kept")
        assert work.outcomes == ["sent"]
        assert [len(texts(at(brokers, name))) for name in ("a", "b")] == [1, 1]
