"""MarshallingMessageConverter with marshallers of an application's own."""

from __future__ import annotations

import re
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pyjms.errors import ConfigurationException, MessageConversionException
from pyjms.jms.message import BytesMessage, StreamMessage, TextMessage
from pyjms.runtime.distribution import install_command
from pyjms.support.json_converter import MessageType
from pyjms.support.marshalling import MarshallingMessageConverter, MsgspecMarshaller


class Xml:
    """Names and numbers as XML."""

    def marshal(self, value: object) -> bytes:
        assert isinstance(value, dict)
        return ET.tostring(ET.Element("order", {k: str(v) for k, v in value.items()}))

    def unmarshal(self, data: bytes, target: Any) -> Any:
        found = dict(ET.fromstring(data).attrib)
        return found if target is None else target(**found)


class Session:
    def create_text_message(self, text: str) -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes) -> BytesMessage:
        return BytesMessage(data)


SESSION: Any = Session()


def test_a_marshaller_of_the_application() -> None:
    converter = MarshallingMessageConverter(Xml())
    message = converter.to_message({"id": 7}, SESSION)
    assert isinstance(message, BytesMessage)
    assert converter.from_message(message) == {"id": "7"}
    assert converter.from_message(message, dict) == {"id": "7"}
    text = MarshallingMessageConverter(Xml(), target_type=MessageType.TEXT)
    message = text.to_message({"id": 7}, SESSION)
    assert isinstance(message, TextMessage)
    assert message.text == '<order id="7" />'
    assert converter.from_message(message, object) == {"id": "7"}


def test_another_one_reads() -> None:
    converter = MarshallingMessageConverter(Xml(), MsgspecMarshaller())
    assert converter.from_message(TextMessage("[1]"), list[int]) == [1]


def test_errors_name_the_type_and_not_the_body() -> None:
    converter = MarshallingMessageConverter(Xml())
    with pytest.raises(MessageConversionException, match="a value of type list: AssertionError"):
        converter.to_message([], SESSION)
    with pytest.raises(MessageConversionException) as raised:
        converter.from_message(TextMessage("secret"))
    assert "ParseError" in str(raised.value)
    assert "secret" not in str(raised.value)
    with pytest.raises(MessageConversionException, match="only TextMessages and BytesMessages"):
        converter.from_message(StreamMessage([1]))
    with pytest.raises(ValueError, match="use json or msgpack"):
        MsgspecMarshaller("xml")  # type: ignore[arg-type]


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.delitem(sys.modules, "msgspec.json", raising=False)
    with pytest.raises(ConfigurationException, match=re.escape(install_command("msgspec"))):
        MsgspecMarshaller()
