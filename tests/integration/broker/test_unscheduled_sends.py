"""A broker without a scheduler refuses scheduled messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import IllegalStateException
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


@pytest.fixture
async def template() -> AsyncIterator[JmsTemplate]:
    async with EmbeddedTestBroker(BrokerService("unscheduled", persistent=False)):
        yield JmsTemplate(ConnectionFactory("vm://unscheduled?create=false"), receive_timeout=5)


@pytest.mark.fact("activemq-broker S1")
async def test_a_delay_is_refused_with_the_setting_that_allows_it(template: JmsTemplate) -> None:
    template.delivery_delay = 60
    with pytest.raises(IllegalStateException) as refused:
        await template.convert_and_send("orders", "x")
    assert str(refused.value) == (
        "queue://orders: a message with a delay or schedule (AMQ_SCHEDULED_*) is refused, because "
        "this broker has no scheduler: set scheduler_support: true (in a URL: "
        "schedulerSupport=true)"
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"AMQ_SCHEDULED_DELAY": 60_000},
        {"AMQ_SCHEDULED_PERIOD": 1000, "AMQ_SCHEDULED_REPEAT": 2},
        {"AMQ_SCHEDULED_CRON": "* * * * *"},
    ],
)
async def test_every_kind_of_schedule_is_refused(
    template: JmsTemplate, properties: dict[str, object]
) -> None:
    with pytest.raises(IllegalStateException, match="no scheduler"):
        await template.convert_and_send("topic://news", "x", properties=properties)


async def test_what_a_scheduler_would_deliver_at_once_is_delivered(template: JmsTemplate) -> None:
    await template.convert_and_send("orders", "1")
    await template.convert_and_send("orders", "2", properties={"AMQ_SCHEDULED_REPEAT": 2})
    done = {"AMQ_SCHEDULED_DELAY": 1, "scheduledJobId": "ID:1"}
    await template.convert_and_send("orders", "3", properties=done)
    assert [await template.receive_and_convert("orders") for _ in range(3)] == ["1", "2", "3"]
