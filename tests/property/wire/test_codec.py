"""The codec against generated structures, any portions, and damage."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyjms.errors import RemoteProtocolError
from pyjms.jms.mutf8 import decode_mutf8, encode_mutf8
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.cache import ReadCache, WriteCache
from pyjms.wire.openwire.commands import (
    TYPES,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerAck,
    ProducerId,
    Response,
    StackTraceElement,
    Throwable,
    TransactionInfo,
    WireFormatInfo,
    contents,
)
from pyjms.wire.openwire.fast_reader import FastReader
from pyjms.wire.openwire.fast_writer import FastWriter
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import (
    decode_map,
    decode_text,
    decode_values,
    encode_map,
    encode_text,
    encode_values,
)
from pyjms.wire.openwire.reader import LooseReader, TightReader
from pyjms.wire.openwire.schema import DESTINATIONS, MESSAGES, STRUCTURES, layout_of
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms.wire.openwire.writer import LooseWriter, TightWriter
from tests.kit.properties import examples

few = examples(50)

texts = st.text(max_size=20)
names = st.text(st.sampled_from("ab.é😀"), min_size=1, max_size=8)
numbers = {
    kinds.BYTE: st.integers(-(2**7), 2**7 - 1),
    kinds.INT: st.integers(-(2**31), 2**31 - 1),
    kinds.LONG: st.one_of(
        st.sampled_from([0, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x100000000, -1]),
        st.integers(-(2**63), 2**63 - 1),
    ),
}
nullable_texts = st.none() | texts
elements = st.tuples(nullable_texts, nullable_texts, nullable_texts, numbers[kinds.INT]).map(
    lambda parts: StackTraceElement(*parts)
)
throwables: Any = st.recursive(
    st.tuples(nullable_texts, nullable_texts).map(lambda parts: Throwable(*parts)),
    lambda causes: st.tuples(texts, texts, st.lists(elements, max_size=3).map(tuple), causes).map(
        lambda parts: Throwable(*parts)
    ),
    max_leaves=3,
)
PLAIN = {
    kinds.BOOLEAN: st.booleans(),
    kinds.STRING: st.none() | texts,
    kinds.BYTES: st.none() | st.binary(max_size=30),
    kinds.MAGIC: st.just(b"ActiveMQ"),
    **numbers,
}


@cache
def field_values(kind: int, accepts: frozenset[int], depth: int) -> Any:
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in (kinds.NESTED, kinds.CACHED):
        return st.none() if depth == 0 else st.none() | structures(accepts, depth - 1)
    if kind == kinds.ARRAY:
        if depth == 0:
            return st.none()
        items = st.none() | structures(accepts, depth - 1)
        return st.none() | st.lists(items, max_size=3)
    return st.none() | throwables


@cache
def structures(codes: frozenset[int], depth: int) -> Any:
    return st.sampled_from(sorted(codes)).flatmap(lambda code: structure(code, depth))


@cache
def structure(code: int, depth: int) -> Any:
    if code in DESTINATIONS:
        return names.map(DESTINATIONS[code])
    fields = {
        name: field_values(kind, accepts, depth) for name, kind, accepts in layout_of(code, 12)
    }
    return st.fixed_dictionaries(fields).map(lambda values: build(code, values))


def build(code: int, values: dict[str, Any]) -> Any:
    cls: Any = STRUCTURES[code]
    if not issubclass(cls, Command):
        return cls(**values)
    command = cls()
    for name, value in values.items():
        setattr(command, name, value)
    return command


COMMANDS = frozenset(
    code for code, cls in TYPES.items() if issubclass(cls, Command) and cls is not WireFormatInfo
)
HOT = frozenset(MESSAGES) | {
    MessageDispatch.TYPE,
    MessageAck.TYPE,
    Response.TYPE,
    ProducerAck.TYPE,
    TransactionInfo.TYPE,
}
FORMS = st.builds(
    WireFormatSettings,
    tight_encoding_enabled=st.booleans(),
    cache_enabled=st.booleans(),
    cache_size=st.sampled_from([1, 4, 7, 101, 1024]),
    size_prefix_disabled=st.booleans(),
)


def pair(wishes: WireFormatSettings) -> tuple[OpenWireFormat, OpenWireFormat]:
    sender, receiver = OpenWireFormat(wishes), OpenWireFormat(wishes)
    sender.negotiate(receiver.local_info())
    receiver.negotiate(sender.local_info())
    return sender, receiver


@few
@given(
    st.lists(structures(frozenset(STRUCTURES), 3), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, 4, 9, 110, 1024]),
)
def test_every_type_comes_back_in_every_form(values: Any, tight: Any, size: Any) -> None:
    read_cache, write_cache, again_cache = (
        (ReadCache(size), WriteCache(size), WriteCache(size)) if size else (None, None, None)
    )
    for value in values:
        frame = (TightWriter if tight else LooseWriter)(12, True, write_cache).frame(value)
        reader = (TightReader if tight else LooseReader)(frame, 12, True, read_cache)
        back = reader.read_frame()
        assert reader.pos == len(frame)
        assert contents(back) == contents(value)
        again = (TightWriter if tight else LooseWriter)(12, True, again_cache).frame(back)
        assert again == frame


def usual(command: Any) -> Any:
    """Unset what clients do not set, so that the short way is taken."""
    message = getattr(command, "message", command)
    if message is not None and message.TYPE in MESSAGES:
        for name in ("data_structure", "target_consumer_id", "broker_path", "user_id", "cluster"):
            setattr(message, name, None)
    return command


@examples(100)
@given(structures(HOT, 2) | structures(HOT, 2).map(usual))
def test_the_fast_codec_equals_the_general_codec(command: Any) -> None:
    frame = LooseWriter(12, True).frame(command)
    out = bytearray()
    if FastWriter().write_frame(out, command):
        assert out == frame
    short, long = FastReader().read_frame(frame), LooseReader(frame, 12, True).read_frame()
    if short is not None:
        assert contents(short) == contents(long)
        assert getattr(short, "raw", None) == getattr(long, "raw", None)
        assert LooseWriter(12, True).frame(short) == frame


few_producers = st.builds(ProducerId, st.sampled_from(["a", "b"]), st.integers(1, 2))
few_destinations = st.sampled_from(["x", "y"]).map(DESTINATIONS[100])
few_transactions = st.none() | st.builds(
    LocalTransactionId, st.just(1), st.builds(ConnectionId, st.just("a"))
)
few_ids = st.builds(MessageId, st.none(), few_producers, st.integers(1, 3), st.integers(0, 3))
few_messages = st.builds(
    ActiveMQTextMessage,
    few_producers,
    few_destinations,
    few_transactions,
    message_id=few_ids,
    correlation_id=st.sampled_from([None, "c"]),
    reply_to=st.none() | few_destinations,
    content=st.sampled_from([None, b"123"]),
)
few_consumers = st.builds(ConsumerId, st.just("a"), st.just(1), st.integers(1, 2))
few_acks = few_ids.flatmap(
    lambda last: st.builds(
        MessageAck,
        few_destinations,
        few_transactions,
        few_consumers,
        st.sampled_from([0, 2, -1]),
        st.sampled_from([None, last]) | few_ids,
        st.just(last),
        st.integers(1, 2),
    )
)
few_steps = st.builds(
    TransactionInfo,
    st.none() | st.builds(ConnectionId, st.just("a")),
    few_transactions,
    st.sampled_from([0, 2, -1]),
)
few_dispatches = st.builds(MessageDispatch, few_consumers, few_destinations, few_messages)


@examples(75)
@given(st.lists(few_messages | few_acks | few_dispatches | few_steps, max_size=12), st.data())
def test_the_memo_of_the_fast_codec_changes_nothing(commands: Any, data: Any) -> None:
    reader, writer = FastReader(), FastWriter()
    for command in commands:
        frame = LooseWriter(12, True).frame(command)
        out = bytearray()
        assert writer.write_frame(out, command)
        assert out == frame
        if data.draw(st.integers(0, 3)) == 0:  # damaged
            at = data.draw(st.integers(1, len(frame) - 1))
            frame = frame[:at] + data.draw(st.binary(max_size=2)) + frame[at + 1 :]
        again, fresh = reader.read_frame(frame), FastReader().read_frame(frame)
        assert contents(again) == contents(fresh)
        assert getattr(again, "raw", None) == getattr(fresh, "raw", None)


def test_the_steps_of_a_transaction_share_its_id() -> None:
    reader, transaction = FastReader(), LocalTransactionId(7, ConnectionId("a"))
    steps = [
        reader.read_frame(LooseWriter(12, True).frame(TransactionInfo(ConnectionId("a"), each, n)))
        for n, each in enumerate([transaction, LocalTransactionId(7, ConnectionId("a"))])
    ]
    begin, commit = [step for step in steps if isinstance(step, TransactionInfo)]
    assert begin.transaction_id == transaction
    assert commit.transaction_id is begin.transaction_id


@few
@given(FORMS, st.lists(structures(COMMANDS, 2), max_size=4), st.data())
def test_any_portions_give_the_same_commands(wishes: Any, commands: Any, data: Any) -> None:
    sender, receiver = pair(wishes)
    stream = b"".join(sender.encode(command) for command in commands)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += receiver.receive_data(stream[start:end])
    assert contents(received) == contents(commands)


def receive_anything(receiver: OpenWireFormat, data: bytes) -> None:
    """Only one error may escape, and it is remembered."""
    try:
        receiver.receive_data(data)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            receiver.receive_data(b"")


@examples(50)
@given(FORMS, st.sampled_from(sorted(STRUCTURES)), st.binary(max_size=200))
def test_random_bytes_raise_remote_protocol_error_only(wishes: Any, code: Any, data: Any) -> None:
    _, receiver = pair(wishes)
    body = bytes((code,)) + data
    assert receiver.negotiated is not None
    prefix = b"" if receiver.negotiated.size_prefix_disabled else len(body).to_bytes(4, "big")
    receive_anything(receiver, prefix + body)


@given(st.binary(max_size=60))
@example(b"\0\0\0\x0e\x01ActiveMQ\0\0\0\x0c\x01")
def test_random_beginnings_raise_remote_protocol_error_only(data: Any) -> None:
    receive_anything(OpenWireFormat(), data)


@examples(50)
@given(FORMS, structures(COMMANDS, 2), st.data())
def test_damaged_frames_raise_remote_protocol_error_only(
    wishes: Any, command: Any, data: Any
) -> None:
    sender, receiver = pair(wishes)
    frame = bytearray(sender.encode(command))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(frame) - 1))
        frame[place] = data.draw(st.integers(0, 255))
    receive_anything(receiver, bytes(frame))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(0, 0xFFFF).map(lambda unit: Char(chr(unit))),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    numbers[kinds.INT],
    numbers[kinds.LONG].map(Long),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(Float),
    texts,
    st.binary(max_size=20),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def types_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [types_of(item) for item in value]
    return type(value)


@given(st.dictionaries(texts, values, max_size=6))
@few
def test_maps_come_back_with_their_types(content: Any) -> None:
    back = decode_map(encode_map(content))
    assert back == content
    assert types_of(back) == types_of(content)


@given(st.lists(scalars, max_size=8))
@few
def test_streams_come_back_with_their_types(content: Any) -> None:
    back = decode_values(encode_values(content))
    assert back == content
    assert types_of(back) == types_of(content)


@given(st.binary(max_size=100))
def test_random_values_raise_remote_protocol_error_only(data: Any) -> None:
    for decode in (decode_map, decode_values, decode_text):
        try:
            decode(data)
        except RemoteProtocolError:
            continue


def slow_mutf8(text: str) -> bytes:
    """Return modified UTF-8 unit by unit, as the rule is written."""
    units = text.encode("utf-16-be", "surrogatepass")
    out = bytearray()
    for n in range(0, len(units), 2):
        unit = units[n] << 8 | units[n + 1]
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)


@given(st.text(st.characters(), max_size=20) | st.text("a\0é€😀\ud83d\ude00", max_size=20))
def test_modified_utf8_is_the_rule_unit_by_unit(text: Any) -> None:
    data = encode_mutf8(text)
    assert data == slow_mutf8(text)
    joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert decode_mutf8(data) == joined
    assert decode_text(encode_text(text)) == joined
