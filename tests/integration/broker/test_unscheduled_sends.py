"""A broker without a scheduler refuses delivery delays, and warns of other scheduled messages."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

import pytest

from pyjms import DeliveryMode, Queue
from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import IllegalStateException, JMSException
from pyjms_broker.filters.scheduler.schedule_properties import MAXIMUM_WARNINGS
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "no scheduler" in r.getMessage()]


DELAYED: Final = {"AMQ_SCHEDULED_DELAY": 60_000}


@pytest.fixture
async def template() -> AsyncIterator[JmsTemplate]:
    async with EmbeddedTestBroker(BrokerService("unscheduled", persistent=False)):
        yield JmsTemplate(ConnectionFactory("vm://unscheduled?create=false"), receive_timeout=5)


@pytest.mark.fact("activemq-broker S1")
async def test_a_delay_without_a_scheduler_is_warned_of_once_for_each_destination(
    template: JmsTemplate, caplog: pytest.LogCaptureFixture
) -> None:
    for destination in ("orders", "orders", "topic://news"):
        await template.convert_and_send(destination, "x", properties=DELAYED)
    assert [await template.receive_and_convert("orders") for _ in range(2)] == ["x"] * 2
    first, second = warnings_of(caplog)
    assert "queue://orders: " in first
    assert "scheduler_support: true" in first
    assert "schedulerSupport=true" in first
    assert "topic://news: " in second
    assert {r.levelno for r in caplog.records if "no scheduler" in r.getMessage()} == {
        logging.WARNING
    }


@pytest.mark.fact("activemq-broker S12", "activemq-edges 11.14")
@pytest.mark.parametrize("mode", DeliveryMode)
async def test_a_delivery_delay_is_refused(template: JmsTemplate, mode: DeliveryMode) -> None:
    with pytest.raises(IllegalStateException) as refused:
        await template.convert_and_send("orders", "x", delay=60, delivery_mode=mode)
    assert str(refused.value) == (
        "queue://orders: a message with a delivery delay is refused, because this broker has no "
        "scheduler: set scheduler_support: true (in a URL: schedulerSupport=true)"
    )
    assert await template.with_receive_timeout(0).receive("orders") is None
    with pytest.raises(IllegalStateException, match="delivery delay is refused"):
        await template.with_delay(60).convert_and_send("topic://news", "x")


@pytest.mark.fact("activemq-broker S12")
async def test_a_transaction_with_a_delivery_delay_fails(template: JmsTemplate) -> None:
    async with (
        await template.connection_factory.create_connection() as connection,
        await connection.create_session(transacted=True) as session,
    ):
        producer = await session.create_producer(Queue("orders"))
        await producer.send(session.create_text_message("x"))
        await producer.send(session.create_text_message("x"), delivery_delay=60)
        with pytest.raises(JMSException):
            await session.commit()
    assert await template.with_receive_timeout(0).receive("orders") is None


@pytest.mark.parametrize(
    "properties",
    [
        {"AMQ_SCHEDULED_PERIOD": 1000, "AMQ_SCHEDULED_REPEAT": 2},
        {"AMQ_SCHEDULED_CRON": "* * * * *"},
    ],
)
async def test_other_schedules_are_warned_of_too(
    template: JmsTemplate, caplog: pytest.LogCaptureFixture, properties: dict[str, object]
) -> None:
    await template.convert_and_send("orders", "x", properties=properties)
    assert len(warnings_of(caplog)) == 1


async def test_what_a_scheduler_would_deliver_at_once_is_not_warned_of(
    template: JmsTemplate, caplog: pytest.LogCaptureFixture
) -> None:
    await template.convert_and_send("orders", "x")
    await template.convert_and_send("orders", "x", properties={"AMQ_SCHEDULED_REPEAT": 2})
    done = {"AMQ_SCHEDULED_DELAY": 1, "scheduledJobId": "ID:1"}
    await template.convert_and_send("orders", "x", properties=done)
    assert not warnings_of(caplog)


async def test_the_number_of_warnings_is_bounded(
    template: JmsTemplate, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAXIMUM_WARNINGS + 5):
        await template.convert_and_send(f"q{number}", "x", properties=DELAYED)
    assert len(warnings_of(caplog)) == MAXIMUM_WARNINGS
