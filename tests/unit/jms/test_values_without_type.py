"""Values that JMS has no type for: the error names the value, its class, and what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pyjms.errors import MessageFormatException
from pyjms.jms.message import MapMessage, Message, StreamMessage, TextMessage


class Order:
    """A class of the application."""


def in_property(value: object) -> None:
    TextMessage("x").properties["placed"] = value


def in_map(value: object) -> None:
    MapMessage()["placed"] = value


def in_new_map(value: object) -> None:
    MapMessage({"first": 1, "placed": value})


def in_stream(value: object) -> None:
    StreamMessage().write_object(value)


@pytest.mark.parametrize("write", [in_property, in_map, in_new_map, in_stream])
@pytest.mark.parametrize(
    ("value", "name"),
    [(dt.date(2026, 1, 1), "datetime.date"), (Decimal(1), "decimal.Decimal"),
     (Order(), f"{__name__}.Order"), ({1}, "set")],
)  # fmt: skip
def test_the_error_names_the_class_and_what_to_do(
    write: Callable[[object], None], value: object, name: str
) -> None:
    with pytest.raises(MessageFormatException) as caught:
        write(value)
    assert f"a value of class {name} has no JMS type" in str(caught.value)
    assert "convert it to" in caught.value.hint


@pytest.mark.parametrize(
    ("write", "where"),
    [(in_property, "Property 'placed': "), (in_map, "Value 'placed': "),
     (in_new_map, "Value 'placed': ")],
)  # fmt: skip
def test_the_error_names_the_property_or_value(write: Callable[[object], None], where: str) -> None:
    with pytest.raises(MessageFormatException) as caught:
        write([{"when": Order()}])
    assert caught.value.reason.startswith(where)


@pytest.mark.parametrize("message", [TextMessage("x").properties, MapMessage()])
def test_names_are_texts(message: Any) -> None:
    with pytest.raises(MessageFormatException, match=r"must be a str, not 1 \(int\)"):
        message[1] = "x"


def test_a_message_without_the_value_is_unchanged() -> None:
    message = Message()
    with pytest.raises(MessageFormatException):
        message.properties["placed"] = Order()
    assert not message.properties
