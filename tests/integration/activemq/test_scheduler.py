"""Messages that are delivered later: ActiveMQ 5.17.2 with its scheduler, and ours, do the same."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.aio import JmsScheduler
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import TextMessage
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.destination_names import destination_name

pytestmark = pytest.mark.activemq
TOPIC = Topic("ActiveMQ.Scheduler.Management")
HOUR = 3_600_000


@pytest.fixture(scope="module", params=["activemq", "pyjms"])
def scheduling(
    request: pytest.FixtureRequest,
    process: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The URL of a broker with a scheduler."""
    folder = tmp_path_factory.mktemp("scheduling")
    if request.param == "activemq":
        java_program = request.getfixturevalue("java_program")
        program = java_program(Path(__file__).with_name("program"))
        command = [*program, "RealBroker", str(folder / "data"), "scheduler"]
    else:
        arguments = ["--data", str(folder / "data"), "--openwire", "127.0.0.1:0"]
        command = [sys.executable, "-m", "pyjms_broker", *arguments]
    os.environ["PYJMS_BROKER__SCHEDULER_SUPPORT"] = "true"
    try:
        with process(command, folder / "log") as child:
            line = child.stdout.readline()
            assert "accepts connections at" in line, (folder / "log").read_text()
            yield line.split()[-1].replace("localhost", "127.0.0.1")
    finally:
        del os.environ["PYJMS_BROKER__SCHEDULER_SUPPORT"]


class User:
    """A connection and its jobs."""

    def __init__(self, connection: Any, session: Any, queue: Queue) -> None:
        self.connection, self.session, self.queue = connection, session, queue

    async def order(
        self, text: str, to: Any = None, session: Any = None, **orders: Any
    ) -> TextMessage:
        producer = await (session or self.session).create_producer(to or self.queue)
        message = TextMessage(text)
        for name, value in orders.items():
            message.properties[f"AMQ_SCHEDULED_{name.upper()}"] = value
        await producer.send(message)
        return message

    async def manage(self, action: str, reply_to: Any = None, **properties: Any) -> None:
        producer = await self.session.create_producer(TOPIC)
        message = TextMessage("")
        message.reply_to = reply_to
        message.properties["AMQ_SCHEDULER_ACTION"] = action
        for name, value in properties.items():
            message.properties[name] = value
        await producer.send(message)

    async def receive(self, seconds: float, queue: Any = None) -> list[Any]:
        consumer = await self.session.create_consumer(queue or self.queue)
        found = []
        while (message := await consumer.receive(seconds)) is not None:
            found.append(message)
        await consumer.close()
        return found

    async def jobs(self) -> list[Any]:
        replies = await self.session.create_temporary_queue()
        await self.manage("BROWSE", replies)
        return await self.receive(1, replies)


@pytest.fixture
async def user(scheduling: str, request: pytest.FixtureRequest) -> AsyncIterator[User]:
    async with await ConnectionFactory(scheduling).create_connection() as connection:
        await connection.start()
        queue = Queue(destination_name(request))
        user = User(connection, await connection.create_session(), queue)
        yield user
        await user.manage("REMOVEALL")


@pytest.mark.fact("activemq-broker S1", "activemq-broker S2", "activemq-broker S5")
async def test_a_delay(user: User) -> None:
    before = time.time()
    sent = await user.order("x", delay=700)
    [message] = await user.receive(2)
    assert message.text == "x"
    assert message.message_id == sent.message_id
    assert set(message.properties) == {"scheduledJobId"}
    assert time.time() - before >= 0.7


@pytest.mark.fact("activemq-broker S3")
async def test_repetitions(user: User) -> None:
    await user.order("x", delay=100, period=200, repeat=3)
    found = await user.receive(2)
    assert len(found) == 4
    assert len({message.message_id for message in found}) == 4


@pytest.mark.fact("activemq-broker S3")
async def test_too_many_repetitions(user: User) -> None:
    with pytest.raises(JMSException, match="The scheduled repeat value is too large"):
        await user.order("x", period=1000, repeat=1001)


@pytest.mark.fact("activemq-broker S5")
async def test_the_time_to_live_begins_with_the_delivery(user: User) -> None:
    producer = await user.session.create_producer(user.queue)
    message = TextMessage("x")
    message.properties["AMQ_SCHEDULED_DELAY"] = 1000
    await producer.send(message, time_to_live=0.9)
    [found] = await user.receive(2)
    assert found.expiration - found.timestamp == 900
    assert found.timestamp - message.timestamp >= 1000


@pytest.mark.fact("activemq-broker X8")
async def test_a_transaction(user: User) -> None:
    session = await user.connection.create_session(True)
    await user.order("rolled back", session=session, delay=100)
    await session.rollback()
    await user.order("committed", session=session, delay=100)
    assert await user.jobs() == []
    await session.commit()
    assert [message.text for message in await user.receive(2)] == ["committed"]


@pytest.mark.fact("activemq-broker S8")
async def test_jobs_are_listed_and_removed(user: User) -> None:
    await user.order("one", delay=2 * HOUR)
    await user.order("two", delay=HOUR)
    found = await user.jobs()
    assert [message.text for message in found] == ["two", "one"]
    assert [message.type for message in found] == ["Advisory", "Advisory"]
    ids = [message.properties["scheduledJobId"] for message in found]
    assert len(set(ids)) == 2
    await user.manage("REMOVE", scheduledJobId=ids[0])
    assert [message.text for message in await user.jobs()] == ["one"]
    await user.manage("REMOVEALL")
    assert await user.jobs() == []


@pytest.mark.fact("activemq-broker S7")
async def test_a_cron_entry_is_listed_with_its_next_time(user: User) -> None:
    await user.order("x", cron="0 0 1 1 *")
    [job] = await user.jobs()
    assert job.properties["AMQ_SCHEDULED_CRON"] == "0 0 1 1 *"
    with pytest.raises(JMSException):
        await user.order("x", cron="* * *")


@pytest.mark.parametrize("by", ["option", "template"])
async def test_a_template_delays(scheduling: str, by: str) -> None:
    template = JmsTemplate(ConnectionFactory(scheduling), receive_timeout=10.0)
    name = f"delayed-by-{by}"
    began = time.monotonic()
    if by == "template":
        template.delivery_delay = 1.0
        await template.convert_and_send(name, "later")
    else:
        await template.convert_and_send(name, "later", delay=1.0)
    await template.convert_and_send(name, "now", delay=0)
    assert await template.receive_and_convert(name) == "now"
    assert await template.receive_and_convert(name) == "later"
    assert time.monotonic() - began >= 0.9


@pytest.mark.fact("jms-api 3.10")
async def test_the_delivery_delay_of_jms_2(scheduling: str) -> None:
    queue = Queue("delivery-delay")
    async with await ConnectionFactory(scheduling).create_context() as context:
        sent = context.create_text_message("later")
        await context.create_producer().set_delivery_delay(1.0).send(queue, sent)
        await context.create_producer().send(queue, "now")
        consumer = await context.create_consumer(queue)
        assert await consumer.receive_body(str, 10.0) == "now"
        received = await consumer.receive(10.0)
        assert received is not None
        assert received.delivery_time == sent.delivery_time == sent.timestamp + 1000
        assert time.time() * 1000 >= sent.delivery_time


async def test_jobs_with_names_exist_once(scheduling: str, request: pytest.FixtureRequest) -> None:
    """JmsScheduler: of several processes that request a job, only one creates it."""
    queue = destination_name(request)

    async def ask(rate: float) -> None:
        scheduler = JmsScheduler(ConnectionFactory(scheduling))
        await scheduler.schedule(queue, "tick", fixed_rate=rate, initial_delay=0.2, name=queue)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask, 3600.0)
    scheduler = JmsScheduler(ConnectionFactory(scheduling))
    (job,) = await scheduler.jobs(queue)
    assert (job.destination, job.period) == (Queue(queue), 3600.0)
    template = JmsTemplate(ConnectionFactory(scheduling), receive_timeout=30.0)
    assert await template.receive_and_convert(queue) == "tick"
    await scheduler.schedule(queue, "tick", cron="*/20 * * * MON", name=queue)
    (job,) = await scheduler.jobs(queue)
    assert (job.cron, job.period) == ("0,20,40 * * * 1", None)
    assert await scheduler.cancel_named(queue) == 1
    assert await scheduler.jobs(queue) == []
