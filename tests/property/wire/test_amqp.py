"""The AMQP codec against generated values and messages, any portions, and noise."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import RemoteProtocolError
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.codec import decode_value, encode_value
from pyjms.wire.amqp.format import AmqpFormat
from pyjms.wire.amqp.message import DATA, SEQUENCE, VALUE, Message, decode_message, encode_message
from pyjms.wire.amqp.performatives import Header, Properties, read_body
from pyjms.wire.amqp.values import (
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.kit.amqp.codec_fuzz import run
from tests.kit.amqp.peer import contents
from tests.kit.properties import examples


def integers(cls: type[int], bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(1 << (bits - 1)) if signed else 0
    return st.integers(low, low + (1 << bits) - 1).map(cls)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SYMBOL = st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol)
SIMPLE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    integers(UByte, 8, signed=False),
    integers(UShort, 16, signed=False),
    integers(UInt, 32, signed=False),
    integers(ULong, 64, signed=False),
    integers(Byte, 8, signed=True),
    integers(Short, 16, signed=True),
    integers(int, 32, signed=True),
    integers(Long, 64, signed=True),
    integers(Timestamp, 64, signed=True),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    st.characters().map(Char),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    st.uuids(),
    st.binary(max_size=300),
    TEXT,
    SYMBOL,
)
KEYS = st.one_of(TEXT, SYMBOL, integers(ULong, 64, signed=False))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=5),
        st.builds(Described, SYMBOL, inner),
    ),
    max_leaves=20,
)


def typed(value: Any) -> Any:
    """Return what compares by types as well."""
    if isinstance(value, list):
        return [typed(each) for each in value]
    if isinstance(value, dict):
        return {"map": [(typed(key), typed(each)) for key, each in value.items()]}
    if isinstance(value, Described):
        return (typed(value.descriptor), typed(value.value))
    return (type(value).__name__, value)


@given(VALUES)
def test_values_come_back(value: Any) -> None:
    buffer = bytearray()
    encode_value(buffer, value)
    found, end = decode_value(bytes(buffer))
    assert typed(found) == typed(value)
    assert end == len(buffer)


BODIES = st.one_of(
    st.tuples(st.just(DATA), st.lists(st.binary(max_size=300), min_size=1, max_size=3)),
    st.tuples(st.just(SEQUENCE), st.lists(st.lists(VALUES, max_size=3), min_size=1, max_size=3)),
    st.tuples(st.just(VALUE), VALUES),
)
IDS = st.one_of(st.none(), TEXT, st.uuids(), st.binary(max_size=20),
                integers(ULong, 64, signed=False))  # fmt: skip
MAPS = st.none() | st.dictionaries(SYMBOL, VALUES, max_size=3)


@given(
    BODIES,
    st.none() | st.builds(Header, st.booleans(), st.integers(0, 255)),
    st.none() | st.builds(Properties, IDS, subject=st.none() | TEXT, correlation_id=IDS),
    MAPS,
    st.none() | st.dictionaries(TEXT, SIMPLE, max_size=3),
)
def test_messages_come_back(
    body: tuple[int, Any],
    header: Header | None,
    properties: Properties | None,
    annotations: dict[Any, Any] | None,
    application_properties: dict[Any, Any] | None,
) -> None:
    message = Message(*body, header=header, properties=properties, message_annotations=annotations,
                      application_properties=application_properties, footer=annotations)  # fmt: skip
    payload = encode_message(message)
    assert contents(decode_message(payload)) == contents(message)
    skipped = decode_message(payload, body=False)
    assert (skipped.body_kind, skipped.footer) == (message.body_kind, message.footer)


@given(st.binary(max_size=300), st.integers(1, 50))
def test_portions_make_no_difference(data: bytes, size: int) -> None:
    content = b"AMQP\3\1\0\0" + data
    codec = AmqpFormat(1000)
    portions = [content[at : at + size] for at in range(0, len(content), size)]
    found = [item for portion in portions for item in codec.receive_data(portion)]
    assert repr(found) == repr(AmqpFormat(1000).receive_data(content))


@examples(150)
@given(st.binary(max_size=100))
def test_noise_is_refused(data: bytes) -> None:
    for decode in (decode_value, decode_message, read_body):
        with suppress(RemoteProtocolError):
            decode(data)


def test_random_input_breaks_nothing() -> None:
    assert run(2000) > 1000
