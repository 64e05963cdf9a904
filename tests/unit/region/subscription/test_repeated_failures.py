"""What goes wrong for each message is logged once per consumer."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import AckType
from tests.kit.brokers.region import Broker, Client


@pytest.mark.parametrize("destination", [Queue("Q"), Topic("T")])
def test_a_failing_selector_is_logged_once(
    broker: Any, client: Any, destination: Queue | Topic, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.consume(destination, selector="a = 1")

    def fail(_lookup: object) -> bool:
        raise ValueError("no such function")

    consumer.selector = type("Failing", (), {"matches": staticmethod(fail)})()
    for number in range(5):
        client.send(destination, str(number))
    assert client.received(consumer) == []
    (warning,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "failed on message" in warning.getMessage()


@pytest.mark.parametrize("destination", [Queue("Q"), Topic("T")])
def test_removing_a_consumer_twice_counts_down_once(
    broker: Broker, client: Client, destination: Queue | Topic
) -> None:
    first, _second = client.consume(destination), client.consume(destination)
    found = broker.region.add_destination(broker.region.context, destination)
    for _ in range(2):
        found.remove_subscription(client.context, first, 0)
    assert found.statistics.consumers == 1


def test_a_dead_letter_begins_with_no_redelivery(broker: Broker, client: Client) -> None:
    message = client.message(Queue("Q"), "1", persistent=True)
    message.redelivery_counter = 3
    client.send(Queue("Q"), "1", message=message)
    consumer = client.consume(Queue("Q"))
    client.ack(consumer, 0, kind=AckType.POISON)
    (letter,) = broker.dead_letters
    assert letter.redelivery_counter == 0
