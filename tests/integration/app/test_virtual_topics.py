"""A virtual topic used as a queue: nobody receives the messages, which is logged."""

from __future__ import annotations

import logging

import pytest

from pyjms import JmsApplication, PyjmsSettings, jms_listener
from pyjms.support.destination import SimpleDestinationResolver


@jms_listener("Consumer.billing.VirtualTopic.orders", id="billing")
async def billing(text: str) -> None: ...


@jms_listener("Consumer.shipping.VirtualTopic.orders", id="shipping")
async def shipping(text: str) -> None: ...


@jms_listener("Consumer.other.VirtualTopic.invoices", id="other")
async def other(text: str) -> None: ...


@jms_listener("VirtualTopic.orders", id="mistaken")
async def mistaken(text: str) -> None: ...


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == SimpleDestinationResolver.__module__
    ]


async def test_the_log_names_the_listeners_that_a_message_reaches(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyjms")
    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    async with JmsApplication(billing, shipping, other, settings=settings) as application:
        await application.template.convert_and_send("orders", "a queue like any other")
        await application.template.convert_and_send("topic://VirtualTopic.orders", "right")
        assert warnings(caplog) == []
        for _ in range(2):  # and not for each message
            await application.template.convert_and_send("VirtualTopic.orders", "wrong")
        (text,) = warnings(caplog)
        assert "reaches no listener of this application" in text
        assert "Consumer.*.VirtualTopic.orders (listeners here: billing, shipping)" in text
        assert text.endswith("Send to topic://VirtualTopic.orders")
        assert "wrong" not in text


async def test_a_listener_of_the_queue_is_named(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    async with JmsApplication(billing, mistaken, settings=settings) as application:
        await application.template.convert_and_send("VirtualTopic.orders", "x")
    (text,) = warnings(caplog)
    assert "reaches mistaken; " in text
    assert "(listeners here: billing)" in text
