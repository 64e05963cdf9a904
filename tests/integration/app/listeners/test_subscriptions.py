"""Listeners with a client id: one connection for all, durable subscriptions one by one."""

from __future__ import annotations

from typing import Any

import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    DefaultJmsListenerContainerFactory,
    JmsApplication,
    PyjmsSettings,
    SimpleJmsListenerContainerFactory,
    jms_listener,
)
from pyjms.aio import ConnectionFactory
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock

WITH_ID = {"jms": {"client_id": "me"}}


class Three:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @jms_listener("orders", id="queue")
    async def queue(self, text: str) -> None:
        self.seen.append(f"queue {text}")

    @jms_listener("news", id="news", durable=True, subscription="news")
    async def news(self, text: str) -> None:
        self.seen.append(f"news {text}")

    @jms_listener("topic://prices", id="prices")
    async def prices(self, text: str) -> None:
        self.seen.append(f"prices {text}")

    @property
    def heard(self) -> list[str]:
        return sorted(self.seen)


async def _send_to_all(jms_app: JmsTestApp, *texts: str) -> None:
    for text in texts:
        for destination in ("orders", "topic://news", "topic://prices"):
            await jms_app.template.convert_and_send(destination, text)


async def _until(jms_app: JmsTestApp, three: Three, number: int) -> None:
    """Wait until so many calls have ended: the recorder is outside of the handlers."""
    await jms_app.recorder.until(lambda calls: len(calls) >= number)


async def test_listeners_with_a_client_id_start_and_receive(jms_app: JmsTestApp) -> None:
    three = Three()
    await jms_app.start(three, settings=PyjmsSettings.model_validate(WITH_ID))
    await _send_to_all(jms_app, "a")
    await _until(jms_app, three, 3)
    assert three.heard == ["news a", "prices a", "queue a"]


@pytest.mark.parametrize(
    "kind", [DefaultJmsListenerContainerFactory, SimpleJmsListenerContainerFactory]
)
async def test_a_factory_with_its_own_client_id(kind: Any, jms_app: JmsTestApp) -> None:
    class Container(ApplicationContainer):
        jms_listener_container_factory = providers.Singleton(
            kind, providers.Singleton(ConnectionFactory, jms_app.url, client_id="me")
        )

    three = Three()
    await jms_app.start(three, container=Container)
    await _send_to_all(jms_app, "a")
    await _until(jms_app, three, 3)
    assert three.heard == ["news a", "prices a", "queue a"]


async def test_a_durable_subscription_outlives_the_application(jms_app: JmsTestApp) -> None:
    settings = PyjmsSettings.model_validate(WITH_ID)
    first, second = Three(), Three()
    await jms_app.start(first, settings=settings)
    await jms_app.stop()
    await jms_app.start(settings=settings)
    await _send_to_all(jms_app, "missed")
    await jms_app.stop()
    await jms_app.start(second, settings=settings)
    await _until(jms_app, second, 2)
    assert second.heard == ["news missed", "queue missed"]


async def test_the_client_id_is_free_after_a_stop(jms_app: JmsTestApp) -> None:
    for _ in range(3):
        await jms_app.start(Three(), settings=PyjmsSettings.model_validate(WITH_ID))
        await jms_app.stop()
    connection = await ConnectionFactory(jms_app.url, client_id="me").create_connection()
    await connection.start()
    await connection.close()


async def test_durable_in_the_settings(jms_app: JmsTestApp) -> None:
    seen: list[str] = []

    @jms_listener("news", id="news")
    async def handle(text: str) -> None:
        seen.append(text)

    own = {"listeners": {"news": {"durable": True, "client_id": "me", "subscription": "all"}}}
    settings = PyjmsSettings.model_validate(own)
    await jms_app.start(handle, settings=settings)
    await jms_app.stop()
    await jms_app.start(settings=settings.model_copy(update={"listeners": {}}))
    await jms_app.template.convert_and_send("topic://news", "kept")
    await jms_app.stop()
    await jms_app.start(handle, settings=settings)
    await jms_app.recorder.until(lambda calls: len(calls) >= 1)
    assert seen == ["kept"]


async def test_all_listeners_return_when_the_shared_connection_is_lost(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    three = Three()
    application = await jms_app.start(three, settings=PyjmsSettings.model_validate(WITH_ID))
    shared: Any = application.registry["news"].connection_factory
    await shared.reset_connection()
    await jms_clock.advance(10.0)
    await _send_to_all(jms_app, "a")
    await _until(jms_app, three, 3)
    assert three.heard == ["news a", "prices a", "queue a"]


async def test_concurrency_of_all_listeners_does_not_apply_to_a_durable_one(
    jms_app: JmsTestApp,
) -> None:
    three = Three()
    many = {"jms": {"client_id": "me", "listener": {"max_concurrency": 5}}}
    application = await jms_app.start(three, settings=PyjmsSettings.model_validate(many))
    assert application.registry["queue"].max_concurrent_consumers == 5
    assert application.registry["news"].max_concurrent_consumers == 1


def _problem(settings: dict[str, Any], *handlers: Any) -> str:
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(*handlers, settings=PyjmsSettings.model_validate(settings)).check()
    return str(raised.value)


def test_check_refuses_a_durable_listener_that_cannot_start() -> None:
    @jms_listener("news", id="a", durable=True)
    async def no_client_id(text: str) -> None: ...

    @jms_listener("queue://news", id="a", durable=True)
    async def of_a_queue(text: str) -> None: ...

    @jms_listener("news", id="a", durable=True, concurrency="2-3")
    async def many(text: str) -> None: ...

    @jms_listener("news", id="a", durable=True)
    @jms_listener("prices", id="b", durable=True)
    async def twice(text: str) -> None: ...

    assert "needs a client id" in _problem({}, no_client_id)
    assert "Listener 'a': durable: a queue has no subscriptions" in _problem(WITH_ID, of_a_queue)
    assert "a durable subscription has one consumer" in _problem(WITH_ID, many)
    text = _problem(WITH_ID, twice)
    assert "is also that of listener a" in text or "is also that of listener 'a'" in text
    assert "give each its own subscription" in text
