"""Type ids between programs with different classes: pyjms and Spring Boot."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from pyjms import ConfigurationException, JmsApplication, PyjmsSettings, jms_listener
from pyjms.aio import JmsTemplate
from pyjms.jms.message import TextMessage
from pyjms.testing.app import JmsTestApp


class Sent(pydantic.BaseModel):
    number: int


class Express(Sent):
    hours: int = 1


class Mine(pydantic.BaseModel):
    number: int


SPRING = PyjmsSettings.model_validate(
    {"jms": {"converter": {"type_id_mappings": {"com.acme.Sent": f"{__name__}.Sent"}}}}
)


async def test_sender_and_listener_have_different_models(jms_app: JmsTestApp) -> None:
    seen: list[Any] = []

    @jms_listener("orders")
    async def handle(order: Mine) -> None:
        seen.append(order)

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", Sent(number=1))
    await jms_app.drained("orders")
    assert seen == [Mine(number=1)]
    assert await jms_app.dead_letters() == []


async def test_receive_and_convert_returns_the_type_requested(jms_app: JmsTestApp) -> None:
    await jms_app.start()
    await jms_app.template.convert_and_send("orders", Express(number=1))
    assert await jms_app.template.receive_and_convert("orders", type=Mine) == Mine(number=1)


async def _send_as_spring_boot(template: JmsTemplate, name: str, json: str) -> None:
    """Send what Spring Boot does with a MappingJackson2MessageConverter of type TEXT."""

    def create(session: Any) -> Any:
        message = session.create_text_message(json)
        message.properties["_type"] = "com.acme.Sent"
        return message

    await template.send(name, create)


@pytest.mark.parametrize("settings", [PyjmsSettings(), SPRING])
async def test_messages_of_spring_boot(jms_app: JmsTestApp, settings: PyjmsSettings) -> None:
    seen: list[Any] = []

    @jms_listener("orders")
    async def model(order: Mine) -> None:
        seen.append(order)

    @jms_listener("maps")
    async def mapping(order: dict[str, Any]) -> None:
        seen.append(order)

    @jms_listener("open")
    async def anything(order: Any) -> None:
        seen.append(order)

    await jms_app.start(model, mapping, anything, settings=settings)
    for name in ("orders", "maps", "open"):
        await _send_as_spring_boot(jms_app.template, name, '{"number": 7}')
        await jms_app.drained(name)
    named = Sent(number=7) if settings is SPRING else {"number": 7}
    assert seen == [Mine(number=7), {"number": 7}, named]
    assert await jms_app.dead_letters() == []


async def test_messages_for_spring_boot_have_its_type_id(jms_app: JmsTestApp) -> None:
    await jms_app.start(settings=SPRING)
    await jms_app.template.convert_and_send("orders", Sent(number=1))
    message = await jms_app.template.receive("orders")
    assert message is not None
    assert message.properties["_type"] == "com.acme.Sent"
    assert isinstance(message, TextMessage)
    assert message.text == '{"number":1}'


async def test_trusted_packages_are_a_setting(jms_app: JmsTestApp) -> None:
    seen: list[Any] = []

    @jms_listener("orders")
    async def anything(order: Any) -> None:
        seen.append(order)

    trusting = {"jms": {"converter": {"trusted_packages": [__name__]}}}
    await jms_app.start(anything, settings=PyjmsSettings.model_validate(trusting))
    await jms_app.template.convert_and_send("orders", Sent(number=1))
    await jms_app.drained("orders")
    assert seen == [Sent(number=1)]


@pytest.mark.parametrize("name", ["nowhere.Order", "json.Nothing", "json.dumps", "Order"])
def test_a_mapping_to_no_class_is_found_by_check(name: str) -> None:
    mapped = {"jms": {"converter": {"type_id_mappings": {"com.acme.Order": name}}}}
    application = JmsApplication(settings=PyjmsSettings.model_validate(mapped))
    with pytest.raises(ConfigurationException, match=r"type_id_mappings\.com\.acme\.Order"):
        application.check()
