"""What was recorded of Spring's listener containers, with ours at a real ActiveMQ 5.17.2.

The same scenarios run on the bundled broker in memory in tests/integration/listener. Here as there,
a scenario whose listener waits for something has virtual events, never a measured time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms import _clock
from pyjms.client.factory import ConnectionFactory
from pyjms.client.options import RedeliveryPolicy
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.core.template import JmsTemplate
from pyjms.errors import InvalidClientIDException, JMSException
from pyjms.jms.destination import Queue, Topic
from tests.kit.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.data import spring_oracle
from tests.kit.embedded_listener import KINDS, Diary
from tests.kit.remote_client import RemoteClient, client
from tests.kit.waiting import until as until_turning

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["client"]

ALWAYS = 10**9
MODES: dict[str, dict[str, Any]] = {
    "AUTO_ACKNOWLEDGE": {},
    "CLIENT_ACKNOWLEDGE": {"session_acknowledge_mode": 2},
    "DUPS_OK_ACKNOWLEDGE": {"session_acknowledge_mode": 3},
    "INDIVIDUAL_ACKNOWLEDGE(4)": {"session_acknowledge_mode": 4},
    "sessionTransacted": {"session_transacted": True},
}


def short(delay: float = 0.01, **options: Any) -> RedeliveryPolicy:
    return RedeliveryPolicy(initial_redelivery_delay=delay, redelivery_delay=delay, **options)


@pytest.fixture
def factory(client: RemoteClient) -> ConnectionFactory:
    return client.factory()


@pytest.fixture
def template(client: RemoteClient) -> JmsTemplate:
    return JmsTemplate(client.factory(), receive_timeout=10.0)


@pytest.fixture
async def diary() -> Diary:
    return Diary(_clock)  # type: ignore[arg-type] - the machine's


@pytest.fixture
async def build(
    client: RemoteClient, factory: ConnectionFactory
) -> AsyncIterator[Callable[..., Any]]:
    built: list[Any] = []

    def make(
        listener: Any, kind: str = "DefaultMessageListenerContainer", **properties: Any
    ) -> Any:
        properties.setdefault("destination", client.destination("q"))
        if kind.startswith("Default"):
            properties.setdefault("receive_timeout", 0.2)
        connection_factory = properties.pop("connection_factory", factory)
        built.append(KINDS[kind](connection_factory, message_listener=listener, **properties))
        return built[-1]

    yield make
    for container in built:
        await container.shutdown(5)


@pytest.fixture
async def proxy(real_broker: str) -> AsyncIterator[CuttingProxy]:
    """Between client and broker: what it refuses is as if the broker were away."""
    async with cutting_proxy(int(real_broker.rpartition(":")[2])) as proxy:
        yield proxy


async def until(condition: Callable[[], object]) -> None:
    await until_turning(condition, turn=lambda: anyio.sleep(0.005))


async def heard(diary: Diary, condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        await diary.until(condition)


async def consumed(client: RemoteClient) -> None:
    """Wait until the broker knows that the messages of the queue are consumed."""
    session = await client.session()
    with anyio.fail_after(60):
        while [m async for m in await session.create_browser(client.destination("q"))]:  # noqa: ASYNC110
            await anyio.sleep(0.01)


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
    variant: int, client: RemoteClient, factory: ConnectionFactory, diary: Diary, build: Any
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
    assert dead.destination.qualified_name == wanted["JMSDestination"]
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
    variant: int, client: RemoteClient, diary: Diary, build: Any
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
    variant: int, client: RemoteClient, diary: Diary, build: Any
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
    variant: int, client: RemoteClient, diary: Diary, build: Any
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


async def test_each_consumer_of_a_topic_gets_each_message(
    client: RemoteClient, diary: Diary, build: Any
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


async def test_a_durable_topic(client: RemoteClient, diary: Diary, build: Any) -> None:
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


@pytest.mark.parametrize("variant", [0, 1, 4])
async def test_scaling_up_with_real_prefetch(
    variant: int, client: RemoteClient, template: JmsTemplate, build: Any
) -> None:
    expected = spring_oracle()["scale-up"][variant]
    prefetch = 1 if variant else 1000
    factory = client.factory(f"jms.prefetchPolicy.queuePrefetch={prefetch}")
    per_session: Counter[int] = Counter()
    scheduled: list[int] = []

    async def listener(message: Any, session: Any) -> None:
        scheduled.append(container.scheduled_consumer_count)
        await _clock.sleep(0.01)
        per_session[id(session)] += 1

    container = build(listener, connection_factory=factory, concurrency="1-5",
                      idle_consumer_limit=3 if variant == 4 else 1)  # fmt: skip
    await client.send("q", *map(str, range(expected["handled"])))
    await container.start()
    await until(lambda: per_session.total() == expected["handled"])
    assert max(scheduled) == expected["maxScheduled"]
    assert len(per_session) == expected["threadsThatHandledAMessage"]


@pytest.mark.parametrize("variant", range(4))
async def test_a_template_inside_the_listener(
    variant: int, client: RemoteClient, factory: ConnectionFactory, diary: Diary, build: Any
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
    variant: int, client: RemoteClient, factory: ConnectionFactory, diary: Diary, build: Any
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


EXCEPTION_KINDS = {
    "RuntimeException": (RuntimeError("runtime trouble"), True),
    "JMSException": (JMSException("jms trouble"), True),
    "JMSException, no error handler": (JMSException("jms trouble"), False),
    "RuntimeException, no error handler": (RuntimeError("runtime trouble"), False),
}


@pytest.mark.parametrize("kind", EXCEPTION_KINDS)
async def test_who_hears_of_which_exception(
    kind: str, client: RemoteClient, diary: Diary, build: Any
) -> None:
    lines = spring_oracle()["exception-kinds"]
    expected = next(line for line in lines if line["listenerThrows"] == kind)
    error, has_handler = EXCEPTION_KINDS[kind]
    told: list[Exception] = []

    async def listener(message: Any) -> None:
        await diary(message)
        if message.text == "bad" and not message.redelivered:
            raise error

    container = build(
        listener, session_transacted=True, exception_listener=told.append,
        error_handler=diary.on_error if has_handler else None,
    )  # fmt: skip
    await client.send("q", "bad", "good")
    await container.start()
    await heard(diary, lambda: "good#1" in diary.deliveries)
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert len(diary.errors) == len(expected["errorHandler"])
    assert all(seen is error for seen in diary.errors)
    assert len(told) == len(expected["exceptionListener"])


async def test_stop_while_the_listener_is_busy(
    client: RemoteClient, diary: Diary, build: Any
) -> None:
    expected = spring_oracle()["stop-semantics"][0]
    entered, go = anyio.Event(), anyio.Event()
    finished: list[str] = []

    async def listener(message: Any) -> None:
        await diary(message)
        entered.set()
        await go.wait()
        finished.append(message.text)

    container = build(listener, session_transacted=True, prefetch=1)
    await client.send("q", "a", "b")
    await container.start()
    await entered.wait()
    await container.stop()
    now = expected["immediately"]
    assert (container.is_running, container.is_active) == (now["isRunning"], now["isActive"])
    assert (container.active_consumer_count, finished) == (now["activeConsumers"], [])
    go.set()
    then = expected["afterListenerFinished"]
    await until(lambda: container.active_consumer_count == then["active"])
    assert len(finished) == then["listenerCompleted"]
    assert container.scheduled_consumer_count == then["scheduled"]
    await container.start()
    await heard(diary, lambda: len(diary.deliveries) == len(expected["afterRestart"]))
    assert diary.deliveries == expected["afterRestart"]


@pytest.mark.parametrize("variant", range(3))
async def test_the_broker_goes_and_comes_back(
    variant: int, client: RemoteClient, proxy: CuttingProxy, diary: Diary, build: Any, caplog: Any
) -> None:
    expected = spring_oracle()["recovery"][variant]
    container = build(
        diary, connection_factory=ConnectionFactory(proxy.url), session_transacted=True,
        recovery_interval=0.05, cache_level=expected["cacheLevel"],
        concurrent_consumers=expected["consumers"], error_handler=diary.on_error,
    )  # fmt: skip
    await container.start()
    await client.send("q", "before1", "before2")
    await heard(diary, lambda: len(diary.deliveries) == 2)
    await consumed(client)
    proxy.is_open = False
    await proxy.cut_now()
    with anyio.fail_after(30):
        await proxy.refused()
    await until(lambda: container.is_recovering)
    proxy.is_open = True
    await client.send("q", "after1", "after2")
    await heard(diary, lambda: len(diary.deliveries) == 4)
    await until(lambda: not container.is_recovering)
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    warned = [r for r in caplog.records if "trying to recover" in r.getMessage()]
    assert len(warned) == expected["warnLogs"]
    assert len(diary.errors) == expected["errorHandlerCalls"]
    assert container.scheduled_consumer_count == expected["consumers"]


async def test_a_broker_that_comes_later(
    client: RemoteClient, proxy: CuttingProxy, diary: Diary, build: Any, caplog: Any
) -> None:
    expected = spring_oracle()["start-without-broker"][0]
    proxy.is_open = False
    container = build(diary, connection_factory=ConnectionFactory(proxy.url),
                      recovery_interval=0.05)  # fmt: skip
    await client.send("q", "hello")
    await container.start()
    just_after = expected["justAfterStart"]
    assert container.is_running is just_after["isRunning"]
    assert container.is_active is just_after["isActive"]
    assert container.is_registered_with_destination is just_after["isRegistered"]
    with anyio.fail_after(30):
        await proxy.refused()
    proxy.is_open = True
    await heard(diary, lambda: diary.deliveries == expected["deliveries"])
    assert "trying to recover" not in caplog.text  # nothing was lost


@pytest.mark.parametrize("transport", ["tcp", "failover"])
async def test_a_simple_container_and_an_outage(
    transport: str, client: RemoteClient, proxy: CuttingProxy, diary: Diary, build: Any
) -> None:
    absent, plain, failover = spring_oracle()["simple-container"]
    expected = plain if transport == "tcp" else failover
    url = proxy.url if transport == "tcp" else f"failover:({proxy.url})?initialReconnectDelay=10"
    told: list[Exception] = []
    container = build(
        diary, "SimpleMessageListenerContainer", connection_factory=ConnectionFactory(url),
        concurrency="2-4", exception_listener=told.append, recover_on_exception=True,
    )  # fmt: skip
    if transport == "tcp":
        proxy.is_open = False
        with pytest.raises(JMSException):
            await container.start()
        assert container.is_running is absent["isRunning"]
        proxy.is_open = True
    await container.start()
    assert container.scheduled_consumer_count == expected["consumersForConcurrency 2-4"]
    await client.send("q", "before")
    await heard(diary, lambda: len(diary.deliveries) == 1)
    refused = proxy.refusals
    proxy.is_open = False
    await proxy.cut_now()
    await until(lambda: proxy.refusals > refused)
    await until(lambda: len(told) == len(expected["exceptionListener"]))
    proxy.is_open = True
    await client.send("q", "after")
    if expected["receivesAgain"]:
        await heard(diary, lambda: len(diary.deliveries) == 2)
    else:
        assert await client.left("q") == ["after"]  # nobody else took it
    assert container.is_running is expected["isRunning"]
    assert len(told) == len(expected["exceptionListener"])
