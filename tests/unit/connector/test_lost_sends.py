"""Sends that waited for room when their connection went."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.connector.lost_sends import LostSends
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId

ONE, TWO = ProducerId("c1", 1, 1), ProducerId("c1", 2, 1)


def send(
    producer: ProducerId | None, number: int, *, came_in: bool = False, persistent: bool = True
) -> Any:
    message = ActiveMQTextMessage(
        producer_id=producer,
        message_id=MessageId(None, producer, number),
        persistent=persistent,
    )
    return SimpleNamespace(message=message, came_in=came_in)


def test_what_was_lost_is_let_in_once() -> None:
    lost = LostSends()
    lost.note([send(ONE, 1), send(ONE, 3), send(TWO, 2), send(ONE, 1)])
    assert not lost.take(ONE, 2)
    assert not lost.take(None, 1)
    assert [lost.take(ONE, number) for number in (1, 1, 3, 3)] == [True, False, True, False]
    assert lost.take(TWO, 2)


@pytest.mark.parametrize(
    "of_no_use", [send(ONE, 1, came_in=True), send(ONE, 1, persistent=False), send(None, 1)]
)
def test_only_what_would_be_taken_for_stored_is_remembered(of_no_use: Any) -> None:
    lost = LostSends()
    lost.note([of_no_use])
    assert not lost.take(ONE, 1)


def test_what_is_let_in_anyway_is_forgotten_when_its_producer_is_back() -> None:
    lost = LostSends()
    lost.note([send(ONE, number) for number in (1, 2, 3)])
    lost.returned(ONE, 2)
    lost.returned(TWO, 2)
    assert [lost.take(ONE, number) for number in (1, 2, 3)] == [True, True, False]


def test_there_is_an_end_to_what_is_remembered() -> None:
    lost = LostSends(3)
    lost.note([send(ONE, 1), send(ONE, 2), send(TWO, 1)])
    lost.note([send(TWO, 2)])
    assert not lost.take(ONE, 1)
    assert [lost.take(TWO, number) for number in (1, 2)] == [True, True]
    lost.note([send(ONE, number) for number in (1, 2, 3, 4)])
    assert not any(lost.take(ONE, number) for number in (1, 2, 3, 4))
