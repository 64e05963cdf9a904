"""What was recorded of Spring's listener containers, with ours at a real ActiveMQ 5.17.2.

The same scenarios run on the bundled broker in memory in tests/integration/listener; those about
the states of containers are in test_container_states.py. Listeners wait for events, never for a
measured time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.errors import InvalidClientIDException
from pyjms.jms.destination import Queue, Topic
from pyjms.template.template import JmsTemplate
from tests.kit.clients.remote import RemoteClient, client
from tests.kit.data import spring_oracle
from tests.kit.listeners.embedded import Diary
from tests.kit.listeners.remote import build, diary, factory, heard, short, until
from tests.kit.values import present

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["build", "client", "diary", "factory"]

ALWAYS = 10**9
MODES: dict[str, dict[str, Any]] = {
    "AUTO_ACKNOWLEDGE": {},
    "CLIENT_ACKNOWLEDGE": {"session_acknowledge_mode": 2},
    "DUPS_OK_ACKNOWLEDGE": {"session_acknowledge_mode": 3},
    "INDIVIDUAL_ACKNOWLEDGE(4)": {"session_acknowledge_mode": 4},
    "sessionTransacted": {"session_transacted": True},
}


def cause_of(properties: dict[str, Any], text: str) -> str:
    """The recorded cause, with the listener's error, of which Spring does not tell the client."""
    bare = properties["dlqDeliveryFailureCause"].removesuffix("cause:null")
    return f"{bare}cause:RuntimeError: {text}"


POLICIES = {
    0: RedeliveryPolicy(),
    1: RedeliveryPolicy(initial_redelivery_delay=0.1, maximum_redeliveries=2),
    2: RedeliveryPolicy(
        initial_redelivery_delay=0.1, redelivery_delay=0.05, use_exponential_back_off=True,
        back_off_multiplier=2.0, maximum_redeliveries=4,
    ),
    3: short(0.05, maximum_redeliveries=0),
    4: short(0.3),
    5: short(0.1, maximum_redeliveries=-1),
}  # fmt: skip


@pytest.mark.parametrize("variant", [pytest.param(0, marks=pytest.mark.nightly), *range(1, 6)])
async def test_rollback_redelivery_and_dead_letter(
    variant: int,
    client: RemoteClient,
    factory: ConnectionFactory,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    expected = spring_oracle()["rollback-redelivery-dlq"][variant]
    factory.redelivery_policy = POLICIES[variant]
    factory.options.non_blocking_redelivery = variant == 4
    diary.failing["B"] = ALWAYS
    await client.send("q", "A", "B", "C")
    container = build(diary, session_transacted=True, error_handler=diary.on_error)
    await container.start()
    if variant == 5:
        await heard(diary, lambda: len(diary.deliveries) > expected["deliveriesOfBAtLeast"])
        await container.shutdown()
        assert diary.deliveries[:4] == expected["firstDeliveries"]
        assert await client.dead_letters(0) == expected["dlq"]
        return
    await heard(diary, lambda: len(diary.deliveries) == len(expected["deliveries"]))
    await heard(diary, lambda: len(diary.errors) == expected["errorHandlerCalls"])
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    [dead] = await client.dead_letters(1)
    wanted = expected["dlq"][0]
    assert client.text(dead) == wanted["text"]
    assert present(dead.destination).qualified_name == wanted["JMSDestination"]
    assert dead.original_destination == client.destination("q")
    assert (dead.delivery_mode, dead.priority) == (wanted["JMSDeliveryMode"], wanted["JMSPriority"])
    assert (dead.expiration, dead.redelivered) == (
        wanted["JMSExpiration"],
        wanted["JMSRedelivered"],
    )
    assert dead.delivery_count == wanted["JMSXDeliveryCount"]
    assert dead.properties["dlqDeliveryFailureCause"] == cause_of(wanted["properties"], "B")
    assert await client.left("q") == []


@pytest.mark.parametrize("variant", range(4))
async def test_redelivery_with_each_cache_level(
    variant: int, client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["rollback-per-cache-level"][variant]
    diary.failing["B"] = ALWAYS
    await client.send("q", "A", "B", "C")
    container = build(diary, cache_level=expected["cacheLevel"], session_transacted=True,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    await heard(diary, lambda: "C#1" in diary.deliveries and "B#7*" in diary.deliveries)
    await container.shutdown()
    assert len(await client.dead_letters(expected["dlqCount"])) == expected["dlqCount"]
    assert diary.deliveries[0] == "A#1"
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    of_b = [delivery for delivery in expected["deliveries"] if delivery[0] == "B"]
    assert [delivery for delivery in diary.deliveries if delivery[0] == "B"] == of_b
    if expected["cacheLevel"] == "CACHE_CONSUMER":
        assert diary.deliveries == expected["deliveries"]


@pytest.mark.parametrize("variant", range(15))
async def test_acknowledge_modes(
    variant: int, client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    lines = spring_oracle()["ack-modes"]
    expected = lines[variant]
    individual = expected["mode"].startswith("INDIVIDUAL")
    if individual:  # the newest Spring goes on as with CLIENT_ACKNOWLEDGE
        expected = next(
            line for line in lines
            if line["mode"] == "CLIENT_ACKNOWLEDGE"
            and (line["container"], line["m3Fails"]) == (expected["container"], expected["m3Fails"])
        )  # fmt: skip
    diary.failing["m3"] = 1 if expected["m3Fails"] == "first time only" else ALWAYS
    await client.send("q", "m1", "m2", "m3", "m4", "m5")
    mode = "INDIVIDUAL_ACKNOWLEDGE(4)" if individual else expected["mode"]
    container = build(diary, expected["container"], error_handler=diary.on_error, **MODES[mode])
    await container.start()
    await heard(diary, lambda: diary.deliveries[-1:] == ["m5#1"])
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert len(diary.errors) == expected["errorHandlerCalls"]
    dead = await client.dead_letters(len(expected["dlq"]))
    assert [client.text(message) for message in dead] == expected["dlq"]
    assert await client.left("q") == expected["leftInQueueAfterShutdown"]


@pytest.mark.parametrize("variant", range(3))
async def test_a_virtual_topic(
    variant: int, client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["virtual-topic"][variant]
    virtual = f"VirtualTopic.{client.prefix}"
    texts = [f"text {n}" for n in range(1, 7)]
    diary.failing.update(dict.fromkeys(texts, ALWAYS))
    destinations: set[str] = set()
    seen_by_b: list[str] = []

    async def a(message: Any) -> None:
        destinations.add(message.destination.qualified_name)
        await diary(message)

    async def b(message: Any) -> None:
        seen_by_b.append(f"{message.text}#{message.delivery_count}")

    options = {**MODES[expected["mode"]], "error_handler": diary.on_error}
    for name, listener in (("A", a), ("B", b)):
        queue = Queue(f"Consumer.{name}.{virtual}")
        container = build(listener, destination=queue, **options)
        await container.start()
        await container.wait_until_listening()
    await client.send(Topic(virtual), *texts)
    await heard(diary, lambda: len(diary.errors) == expected["A.errorHandlerCalls"])
    await until(lambda: len(seen_by_b) == len(texts))
    assert destinations == {f"queue://Consumer.A.{virtual}"}
    assert diary.deliveries == expected["A.deliveries"]
    assert seen_by_b == expected["B.deliveries"]
    dead = await client.dead_letters(len(expected["dlqTexts"]))
    assert [client.text(message) for message in dead] == expected["dlqTexts"]
    if dead:
        assert str(dead[0].original_destination) == f"queue://Consumer.A.{virtual}"


async def test_a_virtual_topic_with_three_consumers(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["virtual-topic"][3]
    virtual = f"VirtualTopic.{client.prefix}"
    texts = list(expected["A.perMessageAttempts"])
    diary.failing.update(dict.fromkeys(texts, ALWAYS))
    container = build(diary, destination=Queue(f"Consumer.A.{virtual}"), concurrent_consumers=3,
                      session_transacted=True, error_handler=diary.on_error)  # fmt: skip
    await container.start()
    await container.wait_until_listening()
    await client.send(Topic(virtual), *texts)
    await heard(diary, lambda: len(diary.errors) == sum(expected["A.perMessageAttempts"].values()))
    attempts = Counter(delivery.partition("#")[0] for delivery in diary.deliveries)
    assert attempts == expected["A.perMessageAttempts"]
    dead = await client.dead_letters(len(texts))
    assert sorted(str(client.text(message)) for message in dead) == expected["dlqTextsSorted"]


async def test_each_consumer_of_a_topic_gets_each_message(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["topic-concurrency"]
    consumers = expected["concurrentConsumers"]
    container = build(diary, destination=client.topic("t"), concurrent_consumers=consumers)
    await container.start()
    await container.wait_until_listening()
    await client.send(client.topic("t"), "one", "two")
    await heard(diary, lambda: len(diary.deliveries) == expected["listenerCalls"])
    await container.shutdown()
    counts = Counter(delivery.partition("#")[0] for delivery in diary.deliveries)
    assert counts == expected["perMessage"]


async def test_a_durable_topic(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["durable-topic"]
    told: list[Exception] = []

    def subscriber(**options: Any) -> Any:
        return build(diary, destination=client.topic("news"), subscription_durable=True,
                     client_id=client.prefix, exception_listener=told.append, **options)  # fmt: skip

    first = subscriber(subscription_name="sub-1")
    assert first.pub_sub_domain is expected["setSubscriptionDurableSwitchesPubSubDomain"]
    await first.start()
    await first.wait_until_listening()
    await client.send(client.topic("news"), "n1")
    await heard(diary, lambda: diary.deliveries == expected["firstContainer"])
    await first.shutdown()
    await client.send(client.topic("news"), "n2")
    second = subscriber(subscription_name="sub-1")
    await second.start()
    await client.send(client.topic("news"), "n3")
    same = expected["secondContainerSameSubscription"]
    await heard(diary, lambda: diary.deliveries[1:] == same)
    third = subscriber(recovery_interval=60)
    await third.start()
    await until(lambda: told)
    wanted = expected["thirdContainerWithSameClientIdWhileSecondRuns"]
    assert {type(error).__name__ for error in told} == set(wanted["exceptionListenerKinds"])
    assert isinstance(told[0], InvalidClientIDException)
    assert third.is_registered_with_destination is wanted["registered"]


@pytest.mark.parametrize("variant", range(4))
async def test_a_template_inside_the_listener(
    variant: int,
    client: RemoteClient,
    factory: ConnectionFactory,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    expected = spring_oracle()["template-inside-listener"][variant]
    name = expected["variant"]
    inner = JmsTemplate(client.factory() if "another" in name else factory)
    diary.failing["go"] = 1

    async def listener(message: Any) -> None:
        await inner.convert_and_send(client.destination("out"), f"copy {message.delivery_count}")
        await diary(message)

    container = build(
        listener, error_handler=diary.on_error,
        expose_listener_session="exposeListenerSession=false" not in name,
        **({"session_acknowledge_mode": 2} if "CLIENT" in name else {"session_transacted": True}),
    )  # fmt: skip
    await container.start()
    await client.send("q", "go")
    await heard(diary, lambda: len(diary.deliveries) == 2)
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert await client.left("out") == expected["out"]


@pytest.mark.parametrize("variant", range(2))
async def test_a_jms_transaction_manager(
    variant: int,
    client: RemoteClient,
    factory: ConnectionFactory,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    expected = spring_oracle()["external-transaction-manager"][variant]
    level = {"auto": "AUTO"}.get(expected["cacheLevel"], expected["cacheLevel"])
    diary.failing["B"] = 1
    await client.send("q", "A", "B", "C")
    container = build(diary, transaction_manager=JmsTransactionManager(factory), cache_level=level,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    deliveries = expected["deliveries"]
    await heard(diary, lambda: sorted(diary.deliveries) == sorted(deliveries))
    await container.shutdown()
    assert container.cache_level == expected["effective"]
    assert container.session_transacted is expected["sessionTransactedFlag"]
    assert sorted(diary.deliveries) == sorted(deliveries)
    assert len(diary.errors) == len(expected["errorHandler"])
    assert await client.left("q") == expected["leftAfterShutdown"]
