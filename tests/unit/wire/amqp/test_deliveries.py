"""The unsettled deliveries of a session: a disposition costs what it changes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pyjms.wire.amqp.deliveries import Delivery, Unsettled
from pyjms.wire.amqp.links import Sender
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    MAX_UINT,
    RECEIVER,
    Disposition,
    Rejected,
    TransactionalState,
)
from tests.kit.amqp.peer import opened

WITHIN = TransactionalState(b"1", ACCEPTED)


def link_with_credit() -> Sender:
    return opened().receiver(0, credit=1000)


class Model:
    """The same as `Unsettled`, by looking at each delivery."""

    def __init__(self, first: int) -> None:
        self.link = link_with_credit()
        self.unsettled = Unsettled()
        self.unsettled.next_number = first
        self.numbers: dict[int, Delivery] = {}
        self.having: set[int] = set()

    def add(self, delivery: Delivery | None = None) -> None:
        number = self.unsettled.next_number
        delivery = delivery or Delivery(self.link, number & MAX_UINT, b"", 0)
        self.unsettled.by_id[delivery.id] = self.numbers[number] = delivery
        self.unsettled.numbers.append(number)
        self.unsettled.next_number += 1

    def take(self, begin: int, end: int, *, with_outcome: bool) -> list[Delivery]:
        expected = [
            delivery
            for number, delivery in sorted(self.numbers.items())
            if begin <= number <= end and (with_outcome or number not in self.having)
        ]
        first, last = begin & MAX_UINT, end & MAX_UINT
        assert self.unsettled.take(first, last, with_outcome=with_outcome) == expected
        return expected

    def number_of(self, delivery: Delivery) -> int:
        return next(number for number, each in self.numbers.items() if each is delivery)

    def drop(self, delivery: Delivery) -> None:
        number = self.number_of(delivery)
        del self.numbers[number]
        self.having.discard(number)
        self.unsettled.drop(delivery)

    def set_outcome(self, deliveries: list[Delivery]) -> None:
        self.unsettled.set_outcome(deliveries)
        self.having |= {self.number_of(each) for each in deliveries}

    def clear_outcome(self, numbers: list[int]) -> None:
        self.unsettled.clear_outcome([self.numbers[number] for number in numbers])
        self.having -= set(numbers)


@pytest.mark.parametrize("first", [0, MAX_UINT - 60])
@pytest.mark.parametrize("seed", range(6))
def test_ranges_are_found_as_by_looking_at_each_delivery(seed: int, first: int) -> None:
    chance, model = random.Random(seed), Model(first)
    for _ in range(120):
        for _ in range(chance.choice([1, 5, 100])):
            model.add()
        lowest = model.unsettled.next_number - 150
        begin = chance.randrange(lowest, model.unsettled.next_number + 3)
        settles = chance.random() < 0.5
        taken = model.take(begin, begin + chance.choice([-1, 0, 7, 90]), with_outcome=settles)
        if settles:
            for delivery in taken:
                model.drop(delivery)
        else:
            settled_at_once = [each for each in taken if chance.random() < 0.3]
            model.set_outcome([each for each in taken if each not in settled_at_once])
            for delivery in settled_at_once:
                model.drop(delivery)
        back = [number for number in model.having if chance.random() < 0.2]
        chance.shuffle(back)
        model.clear_outcome(back)
        if chance.random() < 0.1:
            other = Delivery(link_with_credit(), model.unsettled.next_number & MAX_UINT, b"", 0)
            model.add(other)
            for _ in range(chance.choice([0, 3])):
                model.add()
            assert model.unsettled.drop_of(other.link, 1) == [other]
            del model.numbers[model.number_of(other)]
        if chance.random() < 0.2 and model.having:
            model.drop(model.numbers[chance.choice(sorted(model.having))])
    every = model.take(first - 5, model.unsettled.next_number, with_outcome=True)
    assert len(every) == len(model.numbers)


class Looks(dict[int, Delivery]):
    """Counts how often a delivery is looked for."""

    count = 0

    def get(self, key: int, default: Delivery | None = None) -> Delivery | None:  # type: ignore[override]
        self.count += 1
        return super().get(key, default)


@pytest.mark.parametrize("settled", [False, True])
def test_a_flood_of_dispositions_costs_what_it_changes(settled: bool) -> None:
    peer = opened()
    link, count = peer.receiver(0, credit=500), 500
    for _ in range(count):
        link.send(b"m")
    session = link.session
    session.unsettled.by_id = looks = Looks(session.unsettled.by_id)
    peer.send(Disposition(RECEIVER, 0, count - 2, settled=settled, state=WITHIN))
    assert len(peer.states) == count - 1
    first = looks.count
    for last in range(400, 500):  # all of them but the last one have this outcome already
        peer.send(Disposition(RECEIVER, 0, last - 1, settled=False, state=WITHIN))
        peer.send(Disposition(RECEIVER, 2**20, 2**30, settled=True, state=WITHIN))
    assert looks.count - first <= 1
    assert len(peer.states) == count - 1


@pytest.mark.fact("amqp-connector A118")
def test_the_outcome_of_a_single_delivery_may_change() -> None:
    peer = opened()
    link = peer.receiver(0, credit=3)
    for _ in range(3):
        link.send(b"m")
    peer.send(Disposition(RECEIVER, 0, 2, settled=False, state=WITHIN))
    peer.events.clear()
    rejected = Rejected()
    peer.send(Disposition(RECEIVER, 0, 2, settled=False, state=rejected))
    assert peer.events == []
    peer.send(Disposition(RECEIVER, 1, 1, settled=False, state=rejected))
    peer.send(Disposition(RECEIVER, 0, 2, settled=True))
    assert [(each[1], each[2]) for each in peer.events] == [
        *((1, rejected), (0, WITHIN), (1, rejected), (2, WITHIN)),
    ]
    assert link.unsettled == 0


def test_what_is_settled_by_this_side_does_not_pile_up() -> None:
    peer = opened()
    link = peer.receiver(0)

    def numbers() -> Iterator[int]:
        unsettled = link.session.unsettled
        yield from (len(unsettled.numbers), len(unsettled.by_id), unsettled.outcome_count)

    for number in range(1000):
        peer.flow(0, 1, delivery_count=number)
        link.send(b"m")
        peer.send(Disposition(RECEIVER, number, number, settled=False, state=ACCEPTED))
        peer.states[-1].settle(ACCEPTED)
    assert max(numbers()) < 100
