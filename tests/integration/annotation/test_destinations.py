"""What a mark may listen to: several destinations, and several marks on one handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from pyjms import ConfigurationException, Destination, Header, PyjmsSettings, Topic, jms_listener
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of

Origin = Annotated[Destination, Header("jms_destination")]


async def send(app: JmsTestApp, *names: str) -> None:
    for name in names:
        await app.template.convert_and_send(name, f"to {name}")


async def test_several_queues_have_the_same_consumers(jms_app: JmsTestApp) -> None:
    got: list[tuple[str, str]] = []

    @jms_listener("a", "b", "c", id="all", concurrency="2-2")
    async def handler(text: str, origin: Origin) -> None:
        got.append((text, str(origin)))
        if text == "to c":
            raise ValueError(text)

    application = await jms_app.start(handler)
    assert application.registry.get_listener_container_ids() == ("all",)
    await send(jms_app, "a", "b", "c")
    await jms_app.recorder.until(lambda calls: len(calls) == 9)  # one of them seven times
    await jms_app.drained("c")
    assert set(got) == {(f"to {name}", f"queue://{name}") for name in "abc"}
    (dead,) = await jms_app.dead_letters()
    assert str(dead.original_destination) == "queue://c"


async def test_several_topics(jms_app: JmsTestApp) -> None:
    got: list[str] = []

    @jms_listener(Topic("news"), Topic("sport"), id="ticker")
    async def handler(text: str) -> None:
        got.append(text)

    await jms_app.start(handler)
    await send(jms_app, "topic://sport", "topic://news")
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    assert sorted(got) == ["to topic://news", "to topic://sport"]


async def test_yaml_names_several(jms_app: JmsTestApp) -> None:
    @jms_listener("a", id="all")
    async def handler(text: str) -> None: ...

    settings = PyjmsSettings.model_validate({"listeners": {"all": {"destination": ["b", "c"]}}})
    await jms_app.start(handler, settings=settings)
    await send(jms_app, "b", "c")
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    assert jms_app.recorder.errors() == []


async def test_queues_and_topics_have_separate_marks(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", Topic("news"), id="both")
    async def handler(text: str) -> None: ...

    with pytest.raises(
        ConfigurationException, match="one consumer cannot receive from queues and topics"
    ):
        await jms_app.start(handler)


@pytest.mark.fact("spring-jms 6.1")
async def test_marks_repeat_and_are_resolved(jms_app: JmsTestApp) -> None:
    """Each makes a container; all texts may have placeholders; an empty one is not set."""

    @jms_listener(
        "${app.where}",
        id="${app.name}-1",
        selector="region = '${app.region}'",
        concurrency="${app.range}",
        container_factory="${app.factory:}",
    )
    @jms_listener("second", id="second", concurrency="1-1")
    async def handler(text: str) -> None: ...

    values = {"where": "first", "name": "listener", "region": "eu", "range": "2-3"}
    application = await jms_app.start(
        handler, settings=PyjmsSettings.model_validate({"app": values})
    )
    first, second = application.registry
    assert (first.bean_name, first.destination_name) == ("listener-1", "first")
    assert (first.message_selector, first.concurrency) == ("region = 'eu'", "2-3")
    assert (second.bean_name, second.destination_name) == ("second", "second")
    await send(jms_app, "first", "second")
    await jms_app.template.convert_and_send("first", "selected", properties={"region": "eu"})
    await jms_app.drained("second", raise_errors=True)
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    assert {text_of(m) for m in jms_app.recorder.messages(handler)} == {"to second", "selected"}


async def test_a_mark_of_the_application_has_further_ones_in_it(jms_app: JmsTestApp) -> None:
    """Spring: meta-annotations; in Python a decorator that applies another one."""

    def audited(name: str) -> Callable[[Any], Any]:
        return jms_listener(name, f"audit.{name}", id=name, concurrency="1-1")

    @audited("orders")
    async def handler(text: str) -> None: ...

    await jms_app.start(handler)
    await send(jms_app, "orders", "audit.orders")
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    assert jms_app.recorder.errors() == []
