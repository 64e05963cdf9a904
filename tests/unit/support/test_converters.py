"""Payloads to messages and back: simple, JSON and the default."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from pyjms.errors import MessageConversionException, MessageFormatException
from pyjms.jms.api import Session
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.support.converter import (
    DefaultMessageConverter,
    MessageConverter,
    SimpleMessageConverter,
)
from pyjms.support.json_converter import JsonMessageConverter, MessageType
from tests.kit.clients.jms_provider import JmsProvider


class Order(pydantic.BaseModel):
    id: int
    name: str = "n"


class Express(Order):
    hours: int = 24


@dataclass
class Point:
    x: int
    y: int


class Colour(Enum):
    RED = "red"


@pytest.fixture
async def session(provider: JmsProvider) -> Session:
    connection = await provider.create_connection()
    made: Session = await connection.create_session()
    return made


@pytest.mark.fact("spring-jms 5.1/serializable → ObjectMessage")
@pytest.mark.fact(
    "spring-jms 5.1/JMS message → itself",
    "spring-jms 5.1/str → TextMessage",
    "spring-jms 5.1/bytes → BytesMessage",
    "spring-jms 5.1/dict → MapMessage via setObject; other key → MessageConversionException; value type not allowed → JMS MessageFormatException",
    "spring-jms 5.1/None or other → MessageConversionException Cannot convert object of type [T] to JMS message. Supported message payloads are: String, byte array, Map<String,?>, Serializable object.",
)  # fmt: skip
async def test_simple_converter(session: Session, oracle: dict[str, Any]) -> None:
    converter = SimpleMessageConverter()
    assert isinstance(converter, MessageConverter)
    recorded = oracle["converters"]["SimpleMessageConverter.toMessage"]
    payloads: dict[str, object] = {
        "String": "text", "byte[]": b"bytes", "Map": {"a": 1}, "Map with int key": {1: "a"},
        "Map with a List value": {"l": [1]}, "Map with a Date value": {"d": dt.date(2026, 1, 1)},
        "not serializable": object(), "null": None, "a JMS Message": TextMessage("m"),
        # Python objects never become ObjectMessages, which are Java's
        "Integer": 5, "ArrayList": [1],
    }  # fmt: skip
    assert set(payloads) == set(recorded)
    for name, payload in payloads.items():
        expected = (
            recorded[name] if recorded[name] != "ObjectMessage" else "MessageConversionException"
        )
        try:
            seen = type(converter.to_message(payload, session)).__name__
        except (MessageConversionException, MessageFormatException) as error:
            seen = type(error).__name__
        assert seen == expected, name
    message = TextMessage("m")
    assert converter.to_message(message, session) is message
    with pytest.raises(MessageConversionException, match=r"Cannot convert object of type \[int\]"):
        converter.to_message(5, session)
    for payload in ("text", b"bytes", {"a": 1, "b": [True]}):
        assert converter.from_message(converter.to_message(payload, session)) == payload
    assert converter.from_message(TextMessage()) is None
    assert converter.from_message(ObjectMessage(b"\xac\xed")) == b"\xac\xed"
    for unchanged in (Message(), StreamMessage([1])):
        assert converter.from_message(unchanged) is unchanged


@pytest.mark.fact("spring-jms 5.2.1")
async def test_json_target_types(session: Session, oracle: dict[str, Any]) -> None:
    recorded = oracle["converters"]["MappingJackson2MessageConverter"]
    message = JsonMessageConverter().to_message(Order(id=1), session)
    assert type(message).__name__ == recorded["default target type"] == "BytesMessage"
    assert list(message.properties) == recorded["default properties"] == []
    text = JsonMessageConverter(target_type=MessageType.TEXT).to_message(Order(id=1), session)
    assert isinstance(text, TextMessage)
    assert text.text == '{"id":1,"name":"n"}'
    with pytest.raises(ValueError):
        JsonMessageConverter(target_type="map")  # type: ignore[arg-type]


@pytest.mark.fact("spring-jms 5.2.2")
async def test_json_type_id_and_encoding(session: Session) -> None:
    converter = JsonMessageConverter(
        type_id_property_name="_type", type_id_mappings={"order": Order},
        encoding="UTF-16", encoding_property_name="enc",
    )  # fmt: skip
    message = converter.to_message(Order(id=1, name="é"), session)
    assert dict(message.properties) == {"_type": "order", "enc": "UTF-16"}
    assert converter.from_message(message) == Order(id=1, name="é")
    other = converter.to_message(Point(1, 2), session)
    assert other.properties["_type"] == f"{__name__}.Point"
    text = JsonMessageConverter(target_type=MessageType.TEXT, encoding_property_name="enc")
    assert dict(text.to_message(Point(1, 2), session).properties) == {}
    default = JsonMessageConverter(encoding_property_name="enc").to_message(1, session)
    assert default.properties["enc"] == "UTF-8"


@pytest.mark.fact("spring-jms 5.2.3")
async def test_json_reading_needs_a_type(session: Session) -> None:
    written = JsonMessageConverter(type_id_property_name="_type").to_message(Order(id=1), session)
    assert written.properties["_type"] == f"{__name__}.Order"
    with pytest.raises(MessageConversionException, match="type id property"):
        JsonMessageConverter().from_message(written)
    converter = JsonMessageConverter(type_id_property_name="_type")
    bare = BytesMessage(b'{"id":1}')
    bare.message_id = "ID:7"
    with pytest.raises(
        MessageConversionException,
        match=r"Could not find type id property \[_type\] on message \[ID:7\] from destination",
    ):
        converter.from_message(bare)
    with pytest.raises(MessageConversionException, match="not trusted"):
        converter.from_message(written)
    trusting = JsonMessageConverter(
        type_id_property_name="_type", trusted_packages=["collections", "pyjms.support"]
    )
    with pytest.raises(MessageConversionException, match="not trusted"):
        trusting.from_message(written)
    written.properties["_type"] = "pyjms.support.qos.QosSettings"
    written.clear_body()
    assert isinstance(written, BytesMessage)
    written.data = b"[1]"
    with pytest.raises(MessageConversionException, match="QosSettings"):
        trusting.from_message(written)  # loaded, but the JSON is not one
    fitting = BytesMessage(b'{"priority": 7}')
    fitting.properties["_type"] = "pyjms.support.qos.QosSettings"
    assert trusting.from_message(fitting).priority == 7
    for unknown in (
        "pyjms.support.nothing.Here",
        "pyjms.support.qos.nothing",
        "pyjms.supporter.X",
        "",
    ):
        fitting.properties["_type"] = unknown
        with pytest.raises(MessageConversionException):
            trusting.from_message(fitting)
    mapped = JsonMessageConverter(
        type_id_property_name="_type",
        type_id_mappings={"com.acme.Order": Order},
        trusted_packages=["x"],
    )
    fitting.properties["_type"] = "com.acme.Order"
    fitting.data = b'{"id": 3}'
    assert mapped.from_message(fitting) == Order(id=3)


@pytest.mark.fact("spring-jms 5.2.4")
async def test_json_wrong_messages(session: Session) -> None:
    converter = JsonMessageConverter(
        type_id_property_name="_type", type_id_mappings={"o": Order}, encoding_property_name="enc"
    )
    for kind in (MapMessage(), StreamMessage(), ObjectMessage(), Message()):
        kind.properties["_type"] = "o"
        with pytest.raises(ValueError, match="Unsupported message type") as caught:
            converter.from_message(kind)
        assert type(caught.value) is ValueError
    broken = TextMessage('{"id":')
    broken.properties["_type"] = "o"
    with pytest.raises(MessageConversionException, match="JSON"):
        converter.from_message(broken)
    encoded = BytesMessage('{"id":1,"name":"é"}'.encode("latin-1"))
    encoded.properties.update({"_type": "o", "enc": "latin-1"})
    assert converter.from_message(encoded).name == "é"
    encoded.properties["enc"] = "no-such-encoding"
    with pytest.raises(MessageConversionException, match="no-such-encoding"):
        converter.from_message(encoded)
    with pytest.raises(
        MessageConversionException,
        match=r"value of type object as JSON: .* \(send a value",
    ):
        converter.to_message(object(), session)


@pytest.mark.parametrize(
    ("payload", "target"),
    [
        (Order(id=1), Order), (Order(id=1), Order | None), (Express(id=1, hours=3), Order),
        (Point(1, 2), Point), ([Order(id=1)], list[Order]), ((1, "a"), tuple[int, str]),
        ({1, 2}, set[int]), (5, int), (5, None), (1.5, float), (True, bool), ([1, "a"], list),
        ([1, "a"], None), (5, Any), (Order(id=2), Annotated[Order, "note"]),
        ("text", str), ("text", None), (b"bytes", bytes), ({"a": 1}, dict), ({"a": [1]}, None),
        (dt.date(2026, 1, 2), dt.date), (Decimal("1.50"), Decimal), (Colour.RED, Colour),
    ],
)  # fmt: skip
async def test_the_default_converter_round_trip(
    payload: Any, target: Any, session: Session
) -> None:
    converter = DefaultMessageConverter()
    message = converter.to_message(payload, session)
    back = converter.from_message(message, target)
    assert back == payload
    assert type(back) is type(payload)


@pytest.mark.parametrize(
    ("message", "target", "expected"),
    [
        (TextMessage('{"id": 4}'), Order, Order(id=4)),
        (BytesMessage(b'{"id": 4}'), Order, Order(id=4)),
        (MapMessage({"id": 4, "name": "m"}), Order, Order(id=4, name="m")),
        (MapMessage({"x": 1, "y": 2}), Point, Point(1, 2)),
        (TextMessage("5"), int, 5),
        (TextMessage("5"), str, "5"),
        (TextMessage("5"), Annotated[str, pydantic.Field(min_length=1)], "5"),
        (TextMessage("2026-01-02"), dt.date, dt.date(2026, 1, 2)),
        (TextMessage("red"), Colour, Colour.RED),
        (BytesMessage(b"text"), str, "text"),
        (TextMessage("text"), bytes, b"text"),
        (TextMessage("[1, 2]"), list[int], [1, 2]),
        (TextMessage("null"), Order | None, None),
        (TextMessage("x"), object, "x"),
    ],
)
def test_the_parameter_decides_where_the_type_is_not_named(
    message: Message, target: Any, expected: object
) -> None:
    assert DefaultMessageConverter().from_message(message, target) == expected


def test_raw_messages_pass() -> None:
    message = TextMessage("x")
    converter = DefaultMessageConverter()
    assert converter.from_message(message, Message) is message
    assert converter.from_message(message, TextMessage) is message
    stream = StreamMessage([1])
    assert converter.from_message(stream) is stream


class SameShape(pydantic.BaseModel):
    """The receiver's own model of an Order."""

    id: int
    name: str = "m"


class Holiday(Order):
    nights: int = 1


@pytest.mark.parametrize("type_id", ["com.acme.Order", "os.system", "orders.Order", ""])
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (SameShape, SameShape(id=1, name="n")),
        (Point | SameShape, SameShape(id=1, name="n")),
        (dict, {"id": 1, "name": "n"}),
        (dict[str, Any], {"id": 1, "name": "n"}),
        (Annotated[SameShape, "note"], SameShape(id=1, name="n")),
        (None, {"id": 1, "name": "n"}),
        (object, {"id": 1, "name": "n"}),
        (Any, {"id": 1, "name": "n"}),
        (str, '{"id":1,"name":"n"}'),
        (bytes, b'{"id":1,"name":"n"}'),
    ],
)
async def test_the_type_requested_wins_over_the_one_named(
    type_id: str, target: Any, expected: Any, session: Session
) -> None:
    converter = DefaultMessageConverter()
    message = converter.to_message(Order(id=1), session)
    message.properties["_type"] = type_id
    found = converter.from_message(message, target)
    assert found == expected
    assert type(found) is type(expected)


async def test_the_type_named_chooses_among_subclasses_and_members(session: Session) -> None:
    converter = DefaultMessageConverter()
    express = converter.to_message(Express(id=1), session)
    assert express.properties["_type"] == f"{__name__}.Express"
    assert converter.from_message(express, Order) == Express(id=1)
    assert converter.from_message(express, Holiday) == Holiday(id=1)
    assert converter.from_message(express, Holiday | Express) == Express(id=1)
    assert converter.from_message(express, Point | Order) == Express(id=1)
    assert converter.from_message(express, Order | None) == Express(id=1)
    java = DefaultMessageConverter(type_id_mappings={"com.acme.Express": Express})
    express.properties["_type"] = "com.acme.Express"
    assert java.from_message(express, Order) == Express(id=1)
    assert java.from_message(express, Holiday | Express) == Express(id=1)
    assert java.from_message(express, SameShape) == SameShape(id=1, name="n")


async def test_mapped_types_are_read_and_written(session: Session) -> None:
    java = DefaultMessageConverter(type_id_mappings={"com.acme.Order": Order})
    message = java.to_message(Order(id=1), session)
    assert message.properties["_type"] == "com.acme.Order"
    assert java.from_message(message) == Order(id=1)


async def test_the_json_converter_needs_a_type_that_it_knows(session: Session) -> None:
    converter = JsonMessageConverter(type_id_property_name="_type")
    message = converter.to_message(Order(id=1), session)
    for target in (None, object, Any):
        with pytest.raises(MessageConversionException, match="unknown or not trusted"):
            converter.from_message(message, target)
    assert converter.from_message(message, SameShape) == SameShape(id=1, name="n")


async def test_a_text_named_as_such_is_not_json(session: Session) -> None:
    message = JsonMessageConverter(
        target_type=MessageType.TEXT, type_id_property_name="_type"
    ).to_message("hello", session)
    assert DefaultMessageConverter().from_message(message, str) == "hello"
    message.properties["_type"] = "java.lang.String"
    assert DefaultMessageConverter().from_message(message, str) == "hello"
    assert DefaultMessageConverter().from_message(message) == "hello"


def test_errors_do_not_show_the_body() -> None:
    for message in (TextMessage('{"id": "secret"}'), TextMessage("secret {")):
        with pytest.raises(MessageConversionException) as caught:
            DefaultMessageConverter().from_message(message, Order)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.target is Order


async def test_payloads_without_a_message(session: Session) -> None:
    converter = DefaultMessageConverter()
    for payload in (None, object(), {1: "a"}):
        with pytest.raises(MessageConversionException):
            converter.to_message(payload, session)
    with pytest.raises(MessageFormatException):
        converter.to_message({"when": dt.date(2026, 1, 1)}, session)
    with pytest.raises(MessageConversionException, match="no schema"):
        converter.from_message(TextMessage("{}"), type("Plain", (), {}))


async def test_long_problem_lists_are_cut(session: Session) -> None:
    with pytest.raises(MessageConversionException, match="and 3 more"):
        DefaultMessageConverter().from_message(
            TextMessage('["a","b","c","d","e","f","g","h"]'), list[int]
        )


class Purchase(pydantic.BaseModel):
    number: int
    items: list[int]


class Cancellation(pydantic.BaseModel):
    number: int
    reason: str


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('{"number": 1, "items": ["x"]}', "Purchase.items.0: Input should be a valid integer"),
        ('{"number": "x", "reason": "y"}', "Cancellation.number: Input should be a valid integer"),
        ('[{"number": 1}]', "list[Cancellation].0.reason: Field required"),
    ],
)
def test_the_problems_of_a_union_are_those_of_the_nearest_member(text: str, problems: str) -> None:
    message = TextMessage()
    message.text = text
    with pytest.raises(MessageConversionException) as raised:
        DefaultMessageConverter().from_message(
            message, Purchase | Cancellation | list[Cancellation]
        )
    assert f": {problems}" in str(raised.value)
    assert str(raised.value).count("; ") == 0


def test_the_problems_of_all_members_of_a_union_are_told_if_none_is_nearest() -> None:
    message = TextMessage()
    message.text = '{"number": 1}'
    with pytest.raises(MessageConversionException) as raised:
        DefaultMessageConverter().from_message(message, Purchase | Cancellation)
    assert "Purchase.items: Field required; Cancellation.reason: Field required" in str(
        raised.value
    )


class Opened(pydantic.BaseModel):
    kind: Literal["opened"]
    number: int


class Closed(pydantic.BaseModel):
    kind: Literal["closed"]
    number: int
    reason: str


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('{"kind": "opened", "number": "x"}', "Opened.number: Input should be a valid integer"),
        ('{"kind": "closed"}', "Closed.number: Field required; Closed.reason: Field required"),
        (
            '{"kind": "moved", "number": "x"}',
            "Opened.kind: Input should be 'opened'; Closed.kind: Input should be 'closed'",
        ),
    ],
)
def test_the_tags_of_a_union_tell_which_member_was_meant(text: str, problems: str) -> None:
    with pytest.raises(MessageConversionException) as raised:
        DefaultMessageConverter().from_message(TextMessage(text), Opened | Closed)
    assert raised.value.reason.partition(": ")[2].startswith(problems)
    assert raised.value.reason.count("; ") == problems.count("; ")


@pytest.mark.parametrize(
    "target", [Opened, Opened | Closed, list[int], dict[str, int], Opened | None]
)
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"kind": "opened",\n "number": 1,}', "trailing comma at line 2 column 14"),
        ("hello", "expected value at line 1 column 1"),
        ("", "EOF while parsing a value at line 1 column 0"),
    ],
)
def test_a_body_that_is_not_valid_json_is_told_with_its_place(
    text: str, problem: str, typed: bool, target: object
) -> None:
    message = TextMessage(text)
    if typed:
        message.properties["_type"] = "Opened"
    with pytest.raises(MessageConversionException) as raised:
        DefaultMessageConverter().from_message(message, target)
    assert raised.value.reason.endswith(f": the body is not valid JSON: {problem}")


def test_a_text_that_is_no_json_may_be_what_is_wanted() -> None:
    convert = DefaultMessageConverter().from_message
    assert convert(TextMessage("2026-01-02"), dt.date) == dt.date(2026, 1, 2)
    with pytest.raises(MessageConversionException, match="should be a valid integer"):
        convert(TextMessage("hello"), int)
