"""Listeners that are methods of instances: of objects, and of providers of the container."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    Header,
    JmsApplication,
    jms_listener,
    on_shutdown,
    on_startup,
    send_to,
)
from pyjms.app.wiring import ProvidedInstance
from pyjms.testing.app import HandlerCall, JmsTestApp


class Journal:
    def __init__(self) -> None:
        self.lines: list[str] = []


@send_to("answers")
class Orders:
    """Its instance is provided by the container."""

    made = 0

    def __init__(self, journal: Journal) -> None:
        type(self).made += 1
        self.journal = journal

    @on_startup
    def open(self) -> None:
        self.journal.lines.append("opened")

    @on_shutdown
    async def close(self) -> None:
        self.journal.lines.append("closed")

    @jms_listener("orders.new", "orders.changed", id="orders")
    def on_order(self, text: str, name: Annotated[object, Header("jms_destination")]) -> str:
        self.journal.lines.append(f"{text} from {name}")
        return f"answer to {text}"

    @jms_listener("orders.cancelled", id="cancelled")
    async def on_cancelled(self, text: str) -> None:
        self.journal.lines.append(f"cancelled {text}")

    @staticmethod
    @jms_listener("orders.ignored", id="ignored")
    @send_to("answers")
    def on_ignored(text: str) -> str:
        return f"nothing to do for {text}"


class Services(ApplicationContainer):
    journal = providers.Singleton(Journal)
    orders = providers.Factory(Orders, journal)


def has_length(number: int, calls: list[HandlerCall]) -> bool:
    return len(calls) == number


@pytest.mark.parametrize("targets", [(sys.modules[__name__],), (Orders,)])
async def test_the_container_provides_the_instance(targets: object, jms_app: JmsTestApp) -> None:
    Orders.made = 0
    services = Services()
    JmsApplication(*targets, container=services).check()  # type: ignore[misc]
    assert Orders.made == 0  # a check creates nothing
    await jms_app.start(*targets, container=services)  # type: ignore[misc]
    sent = {"new": "a", "changed": "b", "cancelled": "c", "ignored": "d"}
    for number, (name, text) in enumerate(sent.items(), 1):
        await jms_app.template.convert_and_send(f"orders.{name}", text)
        await jms_app.recorder.until(partial(has_length, number))
    answers = {await jms_app.template.receive_and_convert("answers") for _ in range(3)}
    assert answers == {"answer to a", "answer to b", "nothing to do for d"}
    await jms_app.stop()
    assert services.journal().lines == [
        "opened",
        "a from queue://orders.new",
        "b from queue://orders.changed",
        "cancelled c",
        "closed",
    ]
    assert Orders.made == 1


async def test_a_test_replaces_the_instance(jms_app: JmsTestApp) -> None:
    class Fake(Orders):
        async def on_cancelled(self, text: str) -> None:
            self.journal.lines.append(f"fake {text}")

    services = Services()
    fake = Fake(Journal())
    services.orders.override(providers.Object(fake))
    await jms_app.start(Orders, container=services)
    await jms_app.template.convert_and_send("orders.cancelled", "a")
    await jms_app.drained("orders.cancelled", raise_errors=True)
    assert fake.journal.lines == ["opened", "fake a"]
    assert len(jms_app.recorder.calls(fake.on_cancelled)) == 1


async def test_an_instance_among_the_targets_is_the_only_one(jms_app: JmsTestApp) -> None:
    own = Orders(Journal())
    application = await jms_app.start(sys.modules[__name__], own, container=Services)
    assert application.registry.get_listener_container_ids() == ("cancelled", "ignored", "orders")
    await jms_app.template.convert_and_send("orders.cancelled", "a")
    await jms_app.drained("orders.cancelled", raise_errors=True)
    assert own.journal.lines == ["opened", "cancelled a"]


async def test_providers_that_cannot_work_are_named(jms_app: JmsTestApp) -> None:
    class Two(Services):
        further = providers.Singleton(Orders, Services.journal)

    with pytest.raises(
        ConfigurationException, match="several providers of Orders: orders, further"
    ):
        JmsApplication(Orders, container=Two).check()


def test_an_instance_that_comes_later_is_refused() -> None:
    async def make() -> Orders:
        return Orders(Journal())

    instance = ProvidedInstance(Orders, "orders", make)
    with pytest.raises(ConfigurationException, match="'orders' of Orders is asynchronous"):
        instance.instance()
