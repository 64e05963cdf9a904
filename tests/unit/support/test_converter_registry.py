"""Converters of installed packages: found by content type, with clear errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from pytest_mock import MockerFixture

from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException, MessageConversionException
from pyjms.jms.message import Message, TextMessage
from pyjms.support import converter as installed
from pyjms.support.converter import (
    ContentTypeDelegatingMessageConverter,
    DefaultMessageConverter,
    SimpleMessageConverter,
    installed_content_types,
)

Install = Callable[..., None]


class UpperCase:
    """A converter with one instance for the process."""

    def to_message(self, payload: object, session: ActiveMQSession) -> Message:
        return TextMessage(str(payload).upper())

    def from_message(self, message: Message, target: Any = None) -> str:
        assert isinstance(message, TextMessage)
        return (message.text or "").upper()


upper_case = UpperCase()


class NoConverter:
    """A class whose objects do not convert."""


def failing() -> None:
    raise RuntimeError("no library")


@pytest.fixture
def install(mocker: MockerFixture) -> Iterator[Install]:
    points: list[EntryPoint] = []
    mocker.patch.object(installed, "entry_points", return_value=points)
    installed.forget_installed()

    def add(content_type: str, attribute: str, module: str = __name__) -> None:
        points.append(EntryPoint(content_type, f"{module}:{attribute}", installed.GROUP))

    yield add
    installed.forget_installed()


def message(text: str, content_type: str) -> TextMessage:
    made = TextMessage(text)
    made.properties["content_type"] = content_type
    return made


@pytest.mark.parametrize("attribute", ["UpperCase", "upper_case"])
def test_the_default_converter_reads_with_an_installed_one(
    install: Install, attribute: str
) -> None:
    install("text/upper", attribute)
    converter = DefaultMessageConverter()
    assert converter.from_message(message("a", "text/upper")) == "A"
    assert converter.from_message(message("a", "Text/Upper; charset=UTF-8")) == "A"
    assert converter.from_message(message("a", "text/plain")) == "a"
    assert converter.from_message(TextMessage("a")) == "a"
    assert installed_content_types() == ["text/upper"]


def test_the_delegating_converter_prefers_its_own(install: Install) -> None:
    install("text/upper", "UpperCase")
    own = ContentTypeDelegatingMessageConverter(
        content_type="text/upper", converters={"text/upper": SimpleMessageConverter()}
    )
    assert own.from_message(message("a", "text/upper")) == "a"
    installed = ContentTypeDelegatingMessageConverter(content_type="text/upper")
    written = installed.to_message("a", None)  # type: ignore[arg-type]
    assert isinstance(written, TextMessage)
    assert written.text == "A"
    assert written.properties["content_type"] == "text/upper"
    assert installed.from_message(message("a", "text/other")) == "a"


def test_a_raw_message_keeps_its_properties(install: Install) -> None:
    install("text/upper", "UpperCase")
    converter = ContentTypeDelegatingMessageConverter(
        content_type="x/y", converters={"x/y": SimpleMessageConverter()}
    )
    raw = TextMessage("a")
    assert converter.to_message(raw, None) is raw  # type: ignore[arg-type]
    assert dict(raw.properties) == {}


def test_writing_needs_a_converter(install: Install) -> None:
    install("text/upper", "UpperCase")
    with pytest.raises(MessageConversionException) as caught:
        ContentTypeDelegatingMessageConverter(content_type="application/cbor")
    assert "no message converter for the content type 'application/cbor'" in str(caught.value)
    assert "installed: text/upper" in str(caught.value)
    assert caught.value.content_type == "application/cbor"


@pytest.mark.parametrize(
    ("attribute", "module", "reason"),
    [
        ("Missing", __name__, "AttributeError"),
        ("anything", "no_such_module_of_anyone", "ModuleNotFoundError"),
        ("NoConverter", __name__, "a NoConverter lacks the methods to_message and from_message"),
        ("failing", __name__, "RuntimeError: no library"),
    ],
)
def test_a_broken_entry_point_is_named(
    install: Install, attribute: str, module: str, reason: str
) -> None:
    install("text/broken", attribute, module)
    install("text/upper", "UpperCase")
    converter = DefaultMessageConverter()
    with pytest.raises(ConfigurationException) as caught:
        converter.from_message(message("a", "text/broken"))
    text = str(caught.value)
    assert f"{module}:{attribute} (entry point 'pyjms.converters', 'text/broken')" in text
    assert reason in text
    assert converter.from_message(message("a", "text/upper")) == "A", "others still work"


def test_a_name_that_is_not_a_content_type_is_refused(install: Install) -> None:
    install("csv", "UpperCase")
    with pytest.raises(ConfigurationException, match="'csv' is not a content type"):
        DefaultMessageConverter().from_message(message("a", "csv"))


def test_two_packages_for_one_content_type_are_refused(install: Install) -> None:
    install("text/upper", "UpperCase")
    install("Text/Upper", "upper_case")
    with pytest.raises(ConfigurationException, match="There are 2 message converters"):
        DefaultMessageConverter().from_message(message("a", "text/upper"))
