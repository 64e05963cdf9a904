"""Containers end to end: topics, scaling, templates, transactions, threads, lost brokers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.connection.transaction import JmsTransactionManager, ResourceTransactionManager
from pyjms.errors import InvalidClientIDException
from pyjms.jms.api import Session
from pyjms.jms.destination import Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.listeners.embedded import Diary


async def send(template: JmsTemplate, destination: str | Topic, *texts: str) -> None:
    for text in texts:
        await template.convert_and_send(destination, text)


@pytest.mark.fact("spring-jms 11.7")
async def test_each_consumer_of_a_topic_gets_each_message(
    template: JmsTemplate,
    clock: VirtualClock,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
) -> None:
    expected = oracle["topic-concurrency"]
    container = build(
        diary, destination=Topic("t"), concurrent_consumers=expected["concurrentConsumers"]
    )
    await container.start()
    await clock.sleep(0.1)
    await send(template, Topic("t"), "one", "two")
    await diary.until(lambda: len(diary.deliveries) == expected["listenerCalls"])
    await clock.sleep(2)
    counts = Counter(d.partition("#")[0] for d in diary.deliveries)
    assert counts == expected["perMessage"]


async def test_a_durable_topic(
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    clock: VirtualClock,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
) -> None:
    expected = oracle["durable-topic"]
    heard: list[Any] = []

    class Listener:
        async def on_message(self, message: Message) -> None:
            await diary(message)

    def subscriber(**options: Any) -> Any:
        return build(Listener(), destination_name="news", subscription_durable=True,
                     client_id="client-1", exception_listener=heard.append, **options)  # fmt: skip

    first = subscriber(subscription_name="sub-1")
    assert first.pub_sub_domain is expected["setSubscriptionDurableSwitchesPubSubDomain"]
    await first.start()
    await clock.sleep(0.1)
    await send(template, Topic("news"), "n1")
    await diary.until(lambda: diary.deliveries == expected["firstContainer"])
    await first.shutdown()
    await send(template, Topic("news"), "n2")
    second = subscriber(subscription_name="sub-1")
    await second.start()
    await send(template, Topic("news"), "n3")
    await diary.until(lambda: diary.deliveries[1:] == expected["secondContainerSameSubscription"])
    third = subscriber(recovery_interval=60)
    assert (third.subscription_name == f"{__name__}.test_a_durable_topic.<locals>.Listener") is (
        expected["defaultSubscriptionNameIsListenerClassName"]
    )
    await third.start()
    await clock.sleep(0.1)
    wanted = expected["thirdContainerWithSameClientIdWhileSecondRuns"]
    assert {type(error).__name__ for error in heard} == set(wanted["exceptionListenerKinds"])
    assert isinstance(heard[0], InvalidClientIDException)
    assert third.is_registered_with_destination is wanted["registered"]


@pytest.mark.parametrize("variant", range(5))
async def test_scaling_up_with_real_prefetch(
    variant: int,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    clock: VirtualClock,
    oracle: dict[str, Any],
    build: Callable[..., Any],
) -> None:
    expected = oracle["scale-up"][variant]
    prefetch = {0: 1000, 2: 0}.get(variant, 1)
    factory = ConnectionFactory(broker.url + f"&jms.prefetchPolicy.queuePrefetch={prefetch}")
    per_session: Counter[int] = Counter()
    scheduled: list[Any] = []

    async def listener(message: Message, session: Session) -> None:
        scheduled.append(container.scheduled_consumer_count)
        await _clock.sleep(0.02)
        per_session[id(session)] += 1

    container = build(listener, connection_factory=factory, concurrency="1-5",
                      idle_consumer_limit=3 if variant == 4 else 1)  # fmt: skip
    if variant == 3:
        await container.start()
    for number in range(200):
        await template.convert_and_send("q", str(number))
        if variant == 3:
            await clock.sleep(0.002)
    await container.start()
    await broker.drained("q", 30)
    await container.shutdown(5)
    assert per_session.total() == expected["handled"]
    assert max(scheduled) == expected["maxScheduled"]
    assert len(per_session) == expected["threadsThatHandledAMessage"]


@pytest.mark.fact("spring-jms 1.9.1", "spring-jms 1.9.2")
@pytest.mark.parametrize("variant", range(4))
async def test_a_template_inside_the_listener(
    variant: int,
    factory: ConnectionFactory,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    expected = oracle["template-inside-listener"][variant]
    name = expected["variant"]
    inner = JmsTemplate(ConnectionFactory(broker.url) if "another" in name else factory)
    factory.redelivery_policy = RedeliveryPolicy(initial_redelivery_delay=0.02)
    diary.failing["go"] = 1

    async def listener(message: Message) -> None:
        await inner.convert_and_send("out", f"copy {message.delivery_count}")
        await diary(message)

    container = build(
        listener, error_handler=diary.on_error,
        expose_listener_session="exposeListenerSession=false" not in name,
        **({"session_acknowledge_mode": 2} if "CLIENT" in name else {"session_transacted": True}),
    )  # fmt: skip
    await container.start()
    await send(template, "q", "go")
    await diary.until(lambda: len(diary.deliveries) == 2)
    await broker.drained("q")
    assert diary.deliveries == expected["deliveries"]
    assert [message.text for message in await left("out")] == expected["out"]


@pytest.mark.fact("spring-jms 1.8.5")
@pytest.mark.parametrize("variant", range(2))
async def test_a_jms_transaction_manager(
    variant: int,
    factory: ConnectionFactory,
    template: JmsTemplate,
    clock: VirtualClock,
    diary: Diary,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    expected = oracle["external-transaction-manager"][variant]
    level = {"auto": "AUTO"}.get(expected["cacheLevel"], expected["cacheLevel"])
    factory.redelivery_policy = RedeliveryPolicy(initial_redelivery_delay=0.02)
    diary.failing["B"] = 1
    await send(template, "q", "A", "B", "C")
    container = build(diary, transaction_manager=JmsTransactionManager(factory), cache_level=level,
                      error_handler=diary.on_error)  # fmt: skip
    await container.start()
    await diary.until(
        lambda: "C#1" in diary.deliveries and len(diary.deliveries) >= len(expected["deliveries"])
    )
    await clock.sleep(3)
    await container.shutdown()
    assert container.cache_level == expected["effective"]
    assert container.session_transacted is expected["sessionTransactedFlag"]
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    assert len(diary.errors) == len(expected["errorHandler"])
    assert await left("q") == expected["leftAfterShutdown"]


async def test_a_failed_block_inside_the_listener_rolls_the_delivery_back(
    factory: ConnectionFactory,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    diary: Diary,
    build: Callable[..., Any],
    left: Callable[[str], Any],
) -> None:
    manager = JmsTransactionManager(factory)
    inner = JmsTemplate(factory)
    factory.redelivery_policy = RedeliveryPolicy(initial_redelivery_delay=0.02)

    async def listener(message: Message) -> None:
        await diary(message)
        if not message.redelivered:
            with pytest.raises(RuntimeError, match="inside"):
                async with manager.transaction():
                    await inner.convert_and_send("out", "vanishes")
                    raise RuntimeError("inside")

    container = build(listener, session_transacted=True, error_handler=diary.on_error)
    await container.start()
    await send(template, "q", "a")
    await broker.drained("q")
    assert diary.deliveries == ["a#1", "a#2*"]
    assert "rollback-only" in str(diary.errors[0])
    assert await left("out") == []


@pytest.mark.parametrize("kind", ["JMS", "database"])
async def test_a_failed_block_inside_the_listener_and_an_external_transaction(
    kind: str,
    factory: ConnectionFactory,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    """It is reported as the failure of the message, and the connection stays."""
    ends: list[str] = []
    manager = JmsTransactionManager(factory) if kind == "JMS" else ResourceTransactionManager(
        lambda: "rows", lambda _: ends.append("commit"), lambda _: ends.append("rollback")
    )  # fmt: skip
    factory.redelivery_policy = RedeliveryPolicy(initial_redelivery_delay=0.02)
    lost: list[Exception] = []

    async def listener(message: Message) -> None:
        await diary(message)
        if not message.redelivered:
            with pytest.raises(RuntimeError, match="inside"):
                async with manager.transaction():
                    raise RuntimeError("inside")

    container = build(listener, transaction_manager=manager, error_handler=diary.on_error,
                      exception_listener=lost.append)  # fmt: skip
    await container.start()
    await send(template, "q", "a")
    await broker.drained("q")
    await container.shutdown()
    assert diary.deliveries == ["a#1", "a#2*"]
    assert ["rollback-only" in str(error) for error in diary.errors] == [True]
    assert lost == []
    if kind == "database":
        assert ends[:2] == ["rollback", "commit"]


async def test_def_listeners_on_real_sessions(
    factory: ConnectionFactory,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    build: Callable[..., Any],
) -> None:
    threads, texts = set(), []

    def listener(message: Message, session: Session) -> None:
        threads.add(threading.current_thread().name)
        assert isinstance(message, TextMessage)
        texts.append(message.text)
        if session.acknowledge_mode == 2:
            message.acknowledge()

    for options in ({}, {"session_transacted": True}, {"session_acknowledge_mode": 2}):
        texts.clear()
        container = build(listener, bean_name="t", **options)
        await container.start()
        await send(template, "q", *map(str, range(50)))
        await broker.drained("q", None)
        await container.shutdown()
        assert texts == list(map(str, range(50)))
    assert threads == {"t-1"}


@pytest.mark.parametrize("options", [{}, {"session_transacted": True}])
async def test_stopping_and_starting_loses_nothing(
    options: Any,
    broker: EmbeddedTestBroker,
    template: JmsTemplate,
    clock: VirtualClock,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    container = build(diary, concurrent_consumers=2, **options)
    numbers = list(map(str, range(100)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, template, "q", *numbers)
        for _ in range(5):
            await container.start()
            await clock.sleep(0.01)
            await container.stop()
            await clock.sleep(0.01)
    await container.start()
    await broker.drained("q")
    await container.shutdown()
    handled = [d.partition("#")[0] for d in diary.deliveries]
    assert sorted(handled) == sorted(numbers)


@pytest.mark.fact("spring-jms 1.11.9")
@pytest.mark.parametrize("variant", [0, 1, 2])
async def test_the_broker_goes_and_comes_back(
    variant: int,
    clock: VirtualClock,
    oracle: dict[str, Any],
    diary: Diary,
    build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = oracle["recovery"][variant]
    name = f"recovery-{variant}"
    factory = ConnectionFactory(f"vm://{name}?create=false")
    sender = JmsTemplate(ConnectionFactory(f"vm://{name}?create=false"))
    broker = EmbeddedTestBroker(BrokerService(name, persistent=False))
    await broker.start()
    container = build(
        diary, connection_factory=factory, session_transacted=True, recovery_interval=0.4,
        receive_timeout=0.2, cache_level=expected["cacheLevel"],
        concurrent_consumers=expected["consumers"], error_handler=diary.on_error,
    )  # fmt: skip
    await container.start()
    await send(sender, "q", "before1", "before2")
    await diary.until(lambda: len(diary.deliveries) == 2)
    await clock.sleep(0.3)
    await broker.stop()
    await clock.sleep(1.5)
    assert container.is_recovering
    broker = EmbeddedTestBroker(BrokerService(name, persistent=False))
    await broker.start()
    await send(sender, "q", "after1", "after2")
    await diary.until(lambda: len(diary.deliveries) == 4)
    await clock.sleep(0.5)
    assert not container.is_recovering
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    warned = [r for r in caplog.records if "trying to recover" in r.getMessage()]
    assert len(warned) == expected["warnLogs"]
    assert len(diary.errors) == expected["errorHandlerCalls"]
    assert container.scheduled_consumer_count == expected["consumers"]
    await container.shutdown()
    await broker.stop()
