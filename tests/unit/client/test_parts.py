"""The parts of the client that need no connection."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.client.consumer import ConnectionAudit
from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.client.producer import ProducerWindow
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerId, MessageId, ProducerId


def message_id(number: int, producer: int = 1) -> MessageId:
    return MessageId(None, ProducerId("c", producer, 1), number)


def delays(policy: RedeliveryPolicy, count: int) -> list[float]:
    found: list[float] = []
    last: float | None = None
    for _ in range(count):
        last = policy.next_delay(last)
        found.append(last)
    return found


def test_delays_are_the_initial_one_then_the_same_or_growing() -> None:
    assert delays(RedeliveryPolicy(initial_redelivery_delay=0.1), 3) == [0.1, 1.0, 1.0]
    growing = RedeliveryPolicy(
        use_exponential_back_off=True, back_off_multiplier=2, maximum_redelivery_delay=5
    )
    assert delays(growing, 5) == [1, 2, 4, 5, 5]
    at_once = RedeliveryPolicy(initial_redelivery_delay=0, use_exponential_back_off=True)
    assert delays(at_once, 3) == [0, 1, 5]


def test_collision_avoidance_spreads_by_its_percentage() -> None:
    policy = RedeliveryPolicy(use_collision_avoidance=True)
    found = {policy.next_delay(1.0) for _ in range(200)}
    assert all(0.85 <= delay <= 1.15 for delay in found)
    assert min(found) < 0.99
    assert max(found) > 1.01


def test_a_number_of_redeliveries_is_exceeded_or_not() -> None:
    assert not RedeliveryPolicy().is_exceeded(6)
    assert RedeliveryPolicy().is_exceeded(7)
    assert not RedeliveryPolicy(maximum_redeliveries=-1).is_exceeded(1000)


def test_the_audit_remembers_forgets_and_is_bounded() -> None:
    audit = MessageAudit(depth=8, producers=2)
    assert [audit.is_duplicate(message_id(n)) for n in (1, 2, 5, 3)] == [False] * 4
    assert [audit.is_duplicate(message_id(n)) for n in (1, 2, 5, 3)] == [True] * 4
    assert not audit.is_duplicate(message_id(4))
    audit.forget(message_id(2))
    assert not audit.is_duplicate(message_id(2))
    audit.forget(message_id(99))
    audit.forget(message_id(1, producer=9))
    assert not audit.is_duplicate(message_id(100))
    assert not audit.is_duplicate(message_id(5)), "too old to be known"
    assert not audit.is_duplicate(message_id(1, producer=2))
    assert not audit.is_duplicate(message_id(1, producer=3))
    assert not audit.is_duplicate(message_id(100)), "the oldest producer went"
    assert not audit.is_duplicate(None)


@pytest.mark.fact("activemq-edges N13")
def test_the_audit_is_per_queue_and_per_topic_consumer() -> None:
    audits = ConnectionAudit(16, 4)
    one, two = ConsumerId("c", 1, 1), ConsumerId("c", 1, 2)
    assert audits.audit_for(Queue("q"), one) is audits.audit_for(Queue("q"), two)
    assert audits.audit_for(Queue("q"), one) is not audits.audit_for(Queue("r"), one)
    topic = audits.audit_for(Topic("t"), one)
    assert topic is not audits.audit_for(Topic("t"), two)
    audits.remove(one)
    assert audits.audit_for(Topic("t"), one) is not topic
    for number in range(1100):
        audits.audit_for(Queue(f"q{number}"), one)
    assert len(audits) <= 1000


async def test_a_window_without_usage_lets_through() -> None:
    window = ProducerWindow(10)
    await window.wait_for_space()
    window.increase(4)
    window.decrease(100)
    assert window.usage == 0


RULE = "jms.redeliveryPolicy."
NEXT = "useExponentialBackOff=true&" + RULE
SPREAD = "useCollisionAvoidance=true&" + RULE


def spread(policy: RedeliveryPolicy) -> float:
    return max(abs(policy.next_delay(1.0) - 1) for _ in range(300))


@pytest.mark.parametrize(
    ("option", "effect", "before", "after"),
    [
        ("maximumRedeliveries=2", lambda p: p.is_exceeded(3), False, True),
        ("initialRedeliveryDelay=50", lambda p: p.next_delay(None), 1.0, 0.05),
        ("redeliveryDelay=70", lambda p: p.next_delay(3.0), 1.0, 0.07),
        ("useExponentialBackOff=true", lambda p: p.next_delay(2.0), 1.0, 10.0),
        (NEXT + "backOffMultiplier=3", lambda p: p.next_delay(2.0), 1.0, 6.0),
        (NEXT + "maximumRedeliveryDelay=4000", lambda p: p.next_delay(2.0), 1.0, 4.0),
        ("useCollisionAvoidance=true", lambda p: 0.05 < spread(p) <= 0.15, False, True),
        (SPREAD + "collisionAvoidancePercent=50", lambda p: spread(p) > 0.16, False, True),
    ],
)
@pytest.mark.fact("activemq-broker R0")
def test_each_redelivery_option_takes_effect(
    option: str,
    effect: Callable[[RedeliveryPolicy], object],
    before: bool | float,
    after: bool | float,
) -> None:
    assert effect(RedeliveryPolicy()) == before
    assert effect(ConnectionFactory(f"mock://x?{RULE}{option}").redelivery_policy) == after
