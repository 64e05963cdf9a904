"""Sends that waited for space when their connection was lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.connector.connection_registry import UnstoredSends

ONE, TWO = ProducerId("c1", 1, 1), ProducerId("c1", 2, 1)


def send(
    producer: ProducerId | None, number: int, *, is_admitted: bool = False, persistent: bool = True
) -> Any:
    message = ActiveMQTextMessage(
        producer_id=producer,
        message_id=MessageId(None, producer, number),
        persistent=persistent,
    )
    return SimpleNamespace(message=message, is_admitted=is_admitted)


def test_an_unstored_send_is_accepted_once() -> None:
    unstored = UnstoredSends()
    unstored.record([send(ONE, 1), send(ONE, 3), send(TWO, 2), send(ONE, 1)])
    assert not unstored.pop(ONE, 2)
    assert not unstored.pop(None, 1)
    assert [unstored.pop(ONE, number) for number in (1, 1, 3, 3)] == [True, False, True, False]
    assert unstored.pop(TWO, 2)


@pytest.mark.parametrize(
    "irrelevant", [send(ONE, 1, is_admitted=True), send(ONE, 1, persistent=False), send(None, 1)]
)
def test_only_sends_that_would_be_taken_for_stored_are_remembered(irrelevant: Any) -> None:
    unstored = UnstoredSends()
    unstored.record([irrelevant])
    assert not unstored.pop(ONE, 1)


def test_sends_that_are_accepted_anyway_are_forgotten_when_the_producer_returns() -> None:
    unstored = UnstoredSends()
    unstored.record([send(ONE, number) for number in (1, 2, 3)])
    unstored.producer_returned(ONE, 2)
    unstored.producer_returned(TWO, 2)
    assert [unstored.pop(ONE, number) for number in (1, 2, 3)] == [True, True, False]


def test_the_number_of_remembered_sends_is_limited() -> None:
    unstored = UnstoredSends(3)
    unstored.record([send(ONE, 1), send(ONE, 2), send(TWO, 1)])
    unstored.record([send(TWO, 2)])
    assert not unstored.pop(ONE, 1)
    assert [unstored.pop(TWO, number) for number in (1, 2)] == [True, True]
    unstored.record([send(ONE, number) for number in (1, 2, 3, 4)])
    assert not any(unstored.pop(ONE, number) for number in (1, 2, 3, 4))
