"""Settings of single listeners and of connections: redelivery, prefetch, container properties."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms import (
    ConfigurationException,
    JmsApplication,
    PyjmsSettings,
    Queue,
    jms_listener,
    load_settings,
)
from pyjms.aio import JmsTemplate
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


@jms_listener("orders", id="orders")
async def failing(text: str) -> None:
    raise RuntimeError(text)


def _settings(**sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections)


SHORT = {"maximum": 2, "initial_delay": "1s", "multiplier": 3, "max_delay": "2s"}


@pytest.mark.parametrize(
    "settings",
    [
        _settings(activemq={"redelivery": SHORT}),
        _settings(listeners={"orders": {"redelivery": SHORT}}),
        _settings(
            activemq={"redelivery": {"maximum": 9, "multiplier": 3}},
            listeners={"orders": {"redelivery": {k: SHORT[k] for k in SHORT if k != "multiplier"}}},
        ),
    ],
)
async def test_redelivery_is_a_setting(
    settings: PyjmsSettings,
    jms_clock: VirtualClock,
    jms_broker: EmbeddedTestBroker,
    jms_template: JmsTemplate,
) -> None:
    times: list[float] = []

    @jms_listener("orders", id="orders")
    async def handle(text: str) -> None:
        times.append(round(jms_clock.now(), 3))
        raise RuntimeError(text)

    async with JmsApplication(handle, settings=settings.with_broker_url(jms_broker.url)):
        await jms_template.convert_and_send("orders", "a")
        await jms_clock.settle()
        for _ in range(8):
            await jms_clock.advance(0.5)
        await jms_broker.drained("orders")
    assert [round(b - a, 3) for a, b in pairwise(times)] == [1.0, 2.0]
    assert len(await jms_broker.dead_letters()) == 1


async def test_jitter_varies_the_delays(jms_broker: EmbeddedTestBroker) -> None:
    settings = _settings(listeners={"orders": {"redelivery": {"jitter": 0.5}}})
    application = JmsApplication(failing, settings=settings.with_broker_url(jms_broker.url))
    async with application:
        policy = application.registry["orders"].redelivery_policy
    assert policy is not None
    assert {policy.next_delay(1.0) for _ in range(20)} != {1.0}
    assert all(0.5 <= policy.next_delay(1.0) <= 1.5 for _ in range(200))


async def test_one_listeners_redelivery_is_not_the_others(jms_app: JmsTestApp) -> None:
    @jms_listener("a", id="a")
    async def first(text: str) -> None:
        raise RuntimeError(text)

    @jms_listener("b", id="b")
    async def second(text: str) -> None:
        raise RuntimeError(text)

    await jms_app.start(
        first, second, settings=_settings(listeners={"a": {"redelivery": {"maximum": 1}}})
    )
    for name in ("a", "b"):
        await jms_app.template.convert_and_send(name, "x")
        await jms_app.drained(name)
    assert len(jms_app.recorder.calls(first)) == 2
    assert len(jms_app.recorder.calls(second)) == 7


async def _fetched_by_the_first(jms_app: JmsTestApp, application: JmsApplication) -> int:
    """Return how many of 50 messages were dispatched to a listener that has handled none yet."""
    container: Any = application.registry["orders"]
    for number in range(50):
        await jms_app.template.convert_and_send("orders", str(number))
    await container.start()
    await container.wait_until_listening()
    await jms_app.recorder.until(bool)
    reader = await jms_app.template.connection_factory.create_connection()
    await reader.start()
    session = await reader.create_session(transacted=True)
    consumer = await session.create_consumer(
        session.create_queue("orders?consumer.prefetchSize=1000")
    )
    left = 0
    while await consumer.receive(0.2) is not None:
        left += 1
    await reader.close()
    return 50 - left


@pytest.mark.parametrize(
    ("sections", "arguments", "fetched"),
    [
        ({}, {}, 21),
        ({"activemq": {"prefetch": 1000}}, {}, 50),
        ({"activemq": {"prefetch": 4}}, {}, 5),
        ({"jms": {"listener": {"prefetch": 4}}}, {}, 5),
        ({"listeners": {"orders": {"prefetch": 4}}}, {"prefetch": 30}, 5),
        ({}, {"prefetch": 4}, 5),
        ({"activemq": {"prefetch": 30}}, {"prefetch": 4}, 5),
    ],
)
async def test_prefetch_is_a_setting(
    sections: dict[str, Any], arguments: dict[str, Any], fetched: int, jms_app: JmsTestApp
) -> None:

    @jms_listener("orders", id="orders", auto_startup=False, **arguments)
    async def handle(text: str) -> None:
        if text != "0":
            await anyio.sleep_forever()

    application = await jms_app.start(handle, settings=_settings(**sections))
    assert await _fetched_by_the_first(jms_app, application) == fetched
    await jms_app.stop(0.0)


@pytest.mark.parametrize(
    ("activemq", "query", "size"),
    [
        ({}, "", 25),
        ({"prefetch": {"topic": 8}}, "", 25),
        ({"prefetch": 7}, "", 7),
        ({"prefetch": {"queue": 8}}, "", 8),
        ({}, "&jms.prefetchPolicy.queuePrefetch=3", 3),
        ({}, "&jms.prefetchPolicy.all=1000", 1000),
    ],
)
async def test_the_share_of_each_of_several_consumers_yields_to_a_prefetch_that_is_set(
    activemq: dict[str, Any], query: str, size: int
) -> None:
    @jms_listener("orders", id="orders", concurrency="1-4")
    async def handle(text: str) -> None: ...

    sizes: set[int] = set()

    class Recorder(BrokerFilter):
        def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
            if info.destination == Queue("orders"):
                sizes.add(info.prefetch_size)
            return super().add_consumer(context, info)

    service = BrokerService("shares", persistent=False, plugins=[Recorder])
    async with EmbeddedTestBroker(service) as broker:
        settings = _settings(activemq={"broker_url": f"{broker.url}{query}", **activemq})
        async with JmsApplication(handle, settings=settings) as application:
            await application.registry["orders"].wait_until_listening()
    assert sizes == {size}


async def test_messages_are_shared_by_consumers_whose_number_grows(jms_app: JmsTestApp) -> None:

    at_work = 0
    all_at_work, release = anyio.Event(), anyio.Event()

    @jms_listener("orders", id="orders", concurrency="1-10")
    async def handle(text: str) -> None:
        nonlocal at_work
        at_work += 1
        if at_work == 10:
            all_at_work.set()
        await release.wait()

    await jms_app.start()
    for number in range(200):
        await jms_app.template.convert_and_send("orders", str(number))
    await jms_app.stop()
    await jms_app.start(handle)
    with anyio.fail_after(5):
        await all_at_work.wait()
    release.set()
    await jms_app.drained("orders")


async def test_every_key_of_a_listener_has_its_effect(jms_app: JmsTestApp) -> None:
    own = {
        "destination": "other", "concurrency": "2-4", "selector": "a = 1", "prefetch": 7,
        "client_id": "me", "pub_sub_domain": True, "no_local": True, "receive_timeout": "3s",
        "max_messages_per_task": 5, "idle_consumer_limit": 2, "idle_task_execution_limit": 3,
        "recovery_interval": "7s", "cache_level": "session", "unreadable_messages": "redeliver",
        "session": {"transacted": False, "acknowledge_mode": "client"}, "auto_startup": False,
        "redelivery": {"maximum": 1},
    }  # fmt: skip
    application = await jms_app.start(failing, settings=_settings(listeners={"orders": own}))
    container: Any = application.registry["orders"]
    assert container.destination_name == "other"
    assert container.concurrency == "2-4"
    assert container.message_selector == "a = 1"
    assert container.prefetch == 7
    assert container.client_id == "me"
    assert container.pub_sub_domain
    assert container.pub_sub_no_local
    assert container.receive_timeout == 3.0
    assert container.max_messages_per_task == 5
    assert (container.idle_consumer_limit, container.idle_task_execution_limit) == (2, 3)
    assert container.recovery_interval == 7.0
    assert container.cache_level.name == "SESSION"
    assert container.unreadable_messages == "redeliver"
    assert (container.session_transacted, container.session_acknowledge_mode) == (False, 2)
    assert not container.auto_startup
    assert container.redelivery_policy.maximum_redeliveries == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listeners: {orders: {prefech: 1}}", "did you mean listeners.orders.prefetch?"),
        (
            "listeners: {orders: {redelivery: {maximums: 1}}}",
            "did you mean listeners.orders.redelivery.maximum?",
        ),
        (
            "activemq: {redelivery: {inital_delay: 1s}}",
            "did you mean activemq.redelivery.initial_delay?",
        ),
        ("listeners: {orders: {prefetch: many}}", "prefetch"),
        ("activemq: {redelivery: {initial_delay: 9s, max_delay: 1s}}", "less than initial_delay"),
        ("activemq: {redelivery: {multiplier: 0.5}}", "multiplier"),
    ],
)
def test_wrong_keys_and_values_are_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "application.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationException) as raised:
        load_settings(path, environ={})
    assert words in str(raised.value)
