"""Failing listeners on a real broker: redelivery, delays, dead letters. (spring-jms 1.7, 11)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.errors import ListenerExecutionFailedException
from pyjms.jms.destination import Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.listeners.embedded import Diary
from tests.kit.values import present

ALWAYS = 10**9
MODES: dict[str, dict[str, Any]] = {
    "AUTO_ACKNOWLEDGE": {},
    "CLIENT_ACKNOWLEDGE": {"session_acknowledge_mode": 2},
    "DUPS_OK_ACKNOWLEDGE": {"session_acknowledge_mode": 3},
    "INDIVIDUAL_ACKNOWLEDGE(4)": {"session_acknowledge_mode": 4},
    "sessionTransacted": {"session_transacted": True},
}


async def send(template: JmsTemplate, destination: str | Topic, *texts: str) -> None:
    for text in texts:
        await template.convert_and_send(destination, text)


def without_stamp(properties: Mapping[str, object]) -> dict[str, object]:
    """Without the broker's stamp, which Java's client hides, and our own. (jms-api 10.6)"""
    ours = ("originalExpiration", "pyjms_failure_type", "pyjms_failure_text")
    return {name: value for name, value in properties.items() if name not in ours}


def with_reason(properties: Mapping[str, object], text: str) -> dict[str, object]:
    """What Spring's polling container leaves out: the client is told of the listener's error."""
    name = "dlqDeliveryFailureCause"
    bare = str(properties[name]).removesuffix("cause:null")
    assert bare != properties[name]
    return {**properties, name: f"{bare}cause:RuntimeError: {text}"}


def short(delay: float, **options: Any) -> RedeliveryPolicy:
    return RedeliveryPolicy(initial_redelivery_delay=delay, redelivery_delay=delay, **options)


POLICIES = {
    0: RedeliveryPolicy(),
    1: RedeliveryPolicy(initial_redelivery_delay=0.1, maximum_redeliveries=2),
    2: RedeliveryPolicy(
        initial_redelivery_delay=0.1, redelivery_delay=0.05, use_exponential_back_off=True,
        back_off_multiplier=2.0, maximum_redeliveries=4,
    ),
    3: short(0.05, maximum_redeliveries=0),
}  # fmt: skip


@pytest.mark.fact("spring-jms 1.7.10", "spring-jms 11.1", "spring-jms 11.3")
@pytest.mark.parametrize("variant", POLICIES)
async def test_rollback_redelivery_and_dead_letter(
    variant: int,
    factory: ConnectionFactory,
    template: JmsTemplate,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    expected = oracle["rollback-redelivery-dlq"][variant]
    factory.redelivery_policy = POLICIES[variant]
    diary.failing["B"] = ALWAYS
    await send(template, "orders", "A", "B", "C")
    container = build(diary, destination_name="orders", session_transacted=True,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    await diary.until(lambda: "C#1" in diary.deliveries)
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert diary.gaps("B") == pytest.approx([ms / 1000 for ms in expected["gapsMsOfB"]], abs=0.05)
    assert len(diary.errors) == expected["errorHandlerCalls"]
    [dead] = await left("ActiveMQ.DLQ")
    wanted = expected["dlq"][0]
    assert dead.text == wanted["text"]
    assert dead.destination.qualified_name == wanted["JMSDestination"]
    assert dead.delivery_mode == wanted["JMSDeliveryMode"]
    assert dead.priority == wanted["JMSPriority"]
    assert dead.expiration == wanted["JMSExpiration"]
    assert dead.redelivered == wanted["JMSRedelivered"]
    assert dead.delivery_count == wanted["JMSXDeliveryCount"]
    assert without_stamp(dead.properties) == with_reason(wanted["properties"], "B")
    assert await left("orders") == []


@pytest.mark.parametrize(
    "kind", ["DefaultMessageListenerContainer", "SimpleMessageListenerContainer"]
)
@pytest.mark.parametrize("mode", ["sessionTransacted", "CLIENT_ACKNOWLEDGE"])
async def test_a_dead_letter_has_the_handlers_reason(
    kind: str,
    mode: str,
    factory: ConnectionFactory,
    template: JmsTemplate,
    diary: Diary,
    build: Callable[..., Any],
    left: Callable[[str], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    factory.redelivery_policy = short(0.1, maximum_redeliveries=1)

    async def handler(message: Message) -> None:
        assert isinstance(message, TextMessage)
        reason = f"{message.text} failed at delivery {message.delivery_count}"
        try:
            await diary(message)
        except RuntimeError:
            raise ListenerExecutionFailedException("threw") from ValueError(reason)

    diary.failing["B"] = ALWAYS
    await send(template, "q", "A", "B", "C")
    container = build(handler, kind, bean_name="b", **MODES[mode])
    await container.start()
    await diary.until(lambda: "C#1" in diary.deliveries)
    await container.shutdown()
    [dead] = await left("ActiveMQ.DLQ")
    cause = dead.properties["dlqDeliveryFailureCause"]
    assert cause.startswith("java.lang.Throwable: Delivery[2] exceeds redelivery policy limit:")
    assert cause.endswith("}, cause:ValueError: B failed at delivery 2")
    assert dead.properties["pyjms_failure_type"] == "ValueError"
    assert dead.properties["pyjms_failure_text"] == "B failed at delivery 2"
    failures = [r.getMessage() for r in caplog.records if "Listener b failed" in r.getMessage()]
    assert [line[line.index("attempt") :] for line in failures] == [
        "attempt 1 of 2: ValueError: B failed at delivery 1"
    ]  # the client reports the last one, below
    [died] = [r for r in caplog.records if "becomes a dead letter" in r.getMessage()]
    assert died.levelname == "WARNING"
    assert died.getMessage() == (
        f"Listener b: message {dead.message_id} of queue://q is refused after delivery 2 and becomes a dead "
        "letter. Cause: ValueError: B failed at delivery 2"
    )


@pytest.mark.fact("spring-jms 11.4")
@pytest.mark.parametrize("variant", [3, 4, 5])
async def test_none_unlimited_and_non_blocking_redelivery(
    variant: int,
    broker: EmbeddedTestBroker,
    factory: ConnectionFactory,
    template: JmsTemplate,
    diary: Diary,
    clock: VirtualClock,
    oracle: dict[str, Any],
    build: Callable[..., Any],
) -> None:
    expected = oracle["rollback-redelivery-dlq"][variant]
    factory.redelivery_policy = {
        3: short(0.05, maximum_redeliveries=0),
        4: short(0.3),
        5: short(0.1, maximum_redeliveries=-1),
    }[variant]
    factory.options.non_blocking_redelivery = variant == 4
    diary.failing["B"] = ALWAYS
    await send(template, "orders", "A", "B", "C")
    container = build(diary, destination_name="orders", session_transacted=True,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    if variant == 5:
        await clock.sleep(1.05)
        assert diary.deliveries[:4] == expected["firstDeliveries"]
        assert len(diary.deliveries) - 1 >= expected["deliveriesOfBAtLeast"]
        assert diary.gaps("B") == pytest.approx([0.1] * (len(diary.deliveries) - 2))
        assert len(await broker.dead_letters()) == 0
    else:
        await broker.drained("orders")
        assert diary.deliveries == expected["deliveries"]
        assert len(diary.errors) == expected["errorHandlerCalls"]
        assert [d for d in diary.gaps("B") if d < 0.3] == []
        assert len(await broker.dead_letters()) == len(expected["dlq"])


@pytest.mark.fact("spring-jms 1.2.7")
@pytest.mark.parametrize("variant", range(4))
async def test_only_a_cached_consumer_keeps_the_delay(
    variant: int,
    factory: ConnectionFactory,
    template: JmsTemplate,
    broker: EmbeddedTestBroker,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
) -> None:
    expected = oracle["rollback-per-cache-level"][variant]
    factory.redelivery_policy = short(0.3)
    diary.failing["B"] = ALWAYS
    await send(template, "q", "A", "B", "C")
    container = build(diary, cache_level=expected["cacheLevel"], session_transacted=True,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    await diary.until(lambda: "C#1" in diary.deliveries and "B#7*" in diary.deliveries)
    await broker.drained("q")
    assert len(await broker.dead_letters()) == expected["dlqCount"]
    assert diary.deliveries[0] == "A#1"
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    assert [d for d in diary.deliveries if d[0] == "B"] == [
        d for d in expected["deliveries"] if d[0] == "B"
    ]
    if expected["cacheLevel"] == "CACHE_CONSUMER":
        assert diary.deliveries == expected["deliveries"]
        assert diary.gaps("B") == pytest.approx([0.3] * 6)
    else:
        # on a busy machine the clock may jump once while a consumer is on its way to its close
        assert len([gap for gap in diary.gaps("B") if gap >= 0.3]) <= 1


@pytest.mark.parametrize("variant", range(15))
async def test_acknowledge_modes(
    variant: int,
    factory: ConnectionFactory,
    template: JmsTemplate,
    broker: EmbeddedTestBroker,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    expected = oracle["ack-modes"][variant]
    factory.redelivery_policy = short(0.02)
    individual = expected["mode"].startswith("INDIVIDUAL")
    if individual:  # the newest Spring goes on as with CLIENT_ACKNOWLEDGE
        expected = next(
            line for line in oracle["ack-modes"]
            if line["mode"] == "CLIENT_ACKNOWLEDGE"
            and (line["container"], line["m3Fails"]) == (expected["container"], expected["m3Fails"])
        )  # fmt: skip
    diary.failing["m3"] = 1 if expected["m3Fails"] == "first time only" else ALWAYS
    await send(template, "q", "m1", "m2", "m3", "m4", "m5")
    mode = "INDIVIDUAL_ACKNOWLEDGE(4)" if individual else expected["mode"]
    container = build(diary, expected["container"], error_handler=diary.on_error, **MODES[mode])
    await container.start()
    await diary.until(lambda: diary.deliveries[-1:] == ["m5#1"])
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert len(diary.errors) == expected["errorHandlerCalls"]
    assert [message.text for message in await left("ActiveMQ.DLQ")] == expected["dlq"]
    assert [m.text for m in await left("q")] == expected["leftInQueueAfterShutdown"]


@pytest.mark.fact("spring-jms 11.6")
@pytest.mark.parametrize("variant", range(3))
async def test_a_virtual_topic(
    variant: int,
    factory: ConnectionFactory,
    template: JmsTemplate,
    broker: EmbeddedTestBroker,
    clock: VirtualClock,
    oracle: dict[str, Any],
    diary: Diary,
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    expected = oracle["virtual-topic"][variant]
    factory.redelivery_policy = short(0.1)
    texts = [f"text {n}" for n in range(1, 7)]
    diary.failing.update(dict.fromkeys(texts, ALWAYS))
    destinations = set()
    seen_by_b = []

    async def a(message: Message) -> None:
        destinations.add(present(message.destination).qualified_name)
        await diary(message)

    async def b(message: Message) -> None:
        assert isinstance(message, TextMessage)
        seen_by_b.append(f"{message.text}#{message.delivery_count}")

    options = {**MODES[expected["mode"]], "error_handler": diary.on_error}
    for name, listener in (("A", a), ("B", b)):
        container = build(
            listener, destination_name=f"Consumer.{name}.VirtualTopic.test_topic", **options
        )
        await container.start()
    await clock.sleep(0.1)
    await send(template, Topic("VirtualTopic.test_topic"), *texts)
    await diary.until(lambda: len(diary.errors) == expected["A.errorHandlerCalls"])
    await broker.drained("Consumer.A.VirtualTopic.test_topic")
    await broker.drained("Consumer.B.VirtualTopic.test_topic")
    assert destinations == {expected["JMSDestination seen by A"]}
    assert diary.deliveries == expected["A.deliveries"]
    assert (
        Counter(d.partition("#")[0] for d in diary.deliveries) == expected["A.perMessageAttempts"]
    )
    assert seen_by_b == expected["B.deliveries"]
    dead = await left("ActiveMQ.DLQ")
    assert [message.text for message in dead] == expected["dlqTexts"]
    if dead:
        recorded = expected["firstDlqMessage"]["properties"]
        assert without_stamp(dead[0].properties) == with_reason(recorded, "text 1")
