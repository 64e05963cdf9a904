"""What dict payloads become: JSON or a MapMessage."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from pyjms.app.container import ApplicationContainer
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import MessageConversionException, MessageFormatException
from pyjms.jms.message import MapMessage, TextMessage
from pyjms.settings import PyjmsSettings
from pyjms.support.converter import DefaultMessageConverter, SimpleMessageConverter
from pyjms.template.template import JmsTemplate
from tests.kit.clients.embedded_urls import broker, url

__all__ = ["broker", "url"]


class Colour(Enum):
    RED = "red"


WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RICH: dict[str, Any] = {
    "when": WHEN, "price": Decimal("9.50"), "colour": Colour.RED, "nothing": None,
    "id": UUID(int=7), "nested": {"list": [1, {"deep": WHEN}], "none": None}, "n": 2**70,
}  # fmt: skip
AS_JSON = {
    "when": "2026-01-02T03:04:05Z", "price": "9.50", "colour": "red", "nothing": None,
    "id": str(UUID(int=7)), "nested": {"list": [1, {"deep": "2026-01-02T03:04:05Z"}], "none": None},
    "n": 2**70,
}  # fmt: skip


async def test_json_takes_what_a_map_message_does_not(url: str) -> None:
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=5.0)
    template.message_converter = DefaultMessageConverter(dict_format="json")
    for kind in (None, dict, dict[str, Any]):
        await template.convert_and_send("q", RICH)
        assert await template.receive_and_convert("q", kind) == AS_JSON
    await template.convert_and_send("q", RICH)
    assert isinstance(await template.receive("q"), TextMessage)


@pytest.mark.parametrize("name", ["when", "price", "colour", "id", "n"])
@pytest.mark.parametrize("converter", [DefaultMessageConverter(), SimpleMessageConverter()])
async def test_a_map_message_says_which_value_and_what_to_do(
    url: str, name: str, converter: Any
) -> None:
    template = JmsTemplate(ConnectionFactory(url), message_converter=converter)
    with pytest.raises(MessageFormatException) as raised:
        await template.convert_and_send("q", {"fine": 1, name: RICH[name]})
    text = str(raised.value)
    assert f"A MapMessage cannot hold the value of '{name}'" in text
    assert "jms.converter.dict_format: json" in text
    assert 'DefaultMessageConverter(dict_format="json")' in text


async def test_none_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(MessageConversionException, match="send an empty text"):
        await JmsTemplate(ConnectionFactory(url)).convert_and_send("q", None)


@pytest.mark.parametrize(
    ("given", "kind"), [({}, TextMessage), ({"dict_format": "json"}, TextMessage),
                        ({"dict_format": "map"}, MapMessage)]
)  # fmt: skip
async def test_applications_send_json_unless_set_otherwise(
    url: str, given: dict[str, str], kind: type
) -> None:
    settings = PyjmsSettings.model_validate(
        {"jms": {"converter": given}, "activemq": {"broker_url": url}}
    )
    container = ApplicationContainer(settings=settings)
    template = container.jms_template()
    await template.convert_and_send("q", {"a": 1})
    assert isinstance(await template.receive("q", timeout=5.0), kind)
    await template.convert_and_send("q", {"a": 1})
    assert await template.receive_and_convert("q", timeout=5.0) == {"a": 1}
    await container.connection_factory().destroy()


def test_another_format_is_an_error() -> None:
    wrong: Any = "xml"
    with pytest.raises(ValueError, match="'json' or 'map'"):
        DefaultMessageConverter(dict_format=wrong)
