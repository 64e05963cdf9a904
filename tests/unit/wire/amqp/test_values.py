"""The types of AMQP 1.0: golden bytes, most of them from part 1 of the standard, in both directions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.codec import MAX_VALUES, MAX_WEAK_KEYS, decode_value, encode_value
from pyjms.wire.amqp.values import (
    Array,
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

IDENTIFIER = UUID("f275ea5e-0c57-4ad7-b11a-b20c563d3b71")
LONG = "x" * 300

BOTH: list[tuple[Any, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(255), "50ff"),
    (UShort(0x1234), "601234"),
    (UInt(0), "43"),
    (UInt(1), "5201"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (UInt(2**32 - 1), "70ffffffff"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(2**64 - 1), "80ffffffffffffffff"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (-1, "54ff"),
    (127, "547f"),
    (128, "7100000080"),
    (-(2**31), "7180000000"),
    (Long(-128), "5580"),
    (Long(128), "810000000000000080"),
    (Long(-(2**63)), "818000000000000000"),
    (Float(1.5), "723fc00000"),
    (-2.5, "82c004000000000000"),
    (Decimal32(b"\x22\x50\0\1"), "7422500001"),
    (Decimal64(bytes(8)), "84" + "00" * 8),
    (Decimal128(bytes(16)), "94" + "00" * 16),
    (Char("\u20ac"), "73000020ac"),
    (Char("\U0001f600"), "730001f600"),
    (Timestamp(-1), "83ffffffffffffffff"),
    (Timestamp(1311705672417), "830000013167c02ae1"),
    (IDENTIFIER, "98f275ea5e0c574ad7b11ab20c563d3b71"),
    (b"\0\xff", "a00200ff"),
    (b"", "a000"),
    (b"x" * 300, "b00000012c" + "78" * 300),
    ("caf\u00e9", "a105636166c3a9"),
    (LONG, "b10000012c" + "78" * 300),
    (Symbol("amqp"), "a304616d7170"),
    (Symbol(LONG), "b30000012c" + "78" * 300),
    ([], "45"),
    (["a", 1], "c00602a1016154 01"),
    ([None] * 300, "d0000001300000012c" + "40" * 300),
    ({}, "c10100"),
    ({"a": 1}, "c10602a101615401"),
    ({Symbol("k"): [True]}, "c10802a3016bc0020141"),
    (Described(Symbol("foo"), "bar"), "00a303666f6fa103626172"),
    (Described(ULong(0x468C00000004), "x = 1"), "00800000468c00000004a10578203d2031"),
]
READ: list[tuple[Any, str]] = [
    (True, "5601"),
    (False, "5600"),
    (UInt(7), "7000000007"),
    (ULong(7), "800000000000000007"),
    (7, "7100000007"),
    (Long(7), "810000000000000007"),
    (b"a", "b00000000161"),
    ("a", "b10000000161"),
    (Symbol("a"), "b30000000161"),
    ([1], "d000000006000000015401"),
    ([], "c00100"),
    ({"a": 1}, "d10000000900000002a101615401"),
]
ARRAYS: list[tuple[Array, str]] = [
    (Array([Symbol("a"), Symbol("bc")], 0xA3), "e00702a3016102 6263"),
    (Array([1, -1], 0x54), "e0040254 01ff"),
    (Array([1, 2], 0x71), "e00a02710000000100000002"),
    (Array([True, False], 0x56), "e00402560100"),
    (Array([None, None], 0x40), "e0020240"),
    (Array([UInt(0)], 0x43), "e0020143"),
    (Array([UInt(9)], 0x52), "e003015209"),
    (Array(["ab"], 0xB1), "e00801b1000000026162"),
    (Array([b"ab"], 0xA0), "e00501a0026162"),
    (Array([[1]], 0xC0), "e00601c003015401"),
    (Array([[1], []], 0xD0), "e01402d000000006000000015401 0000000400000000"),
    (Array([Array([UByte(1)], 0x50)], 0xE0), "e00601e003015001"),
    (Array([Char("a")], 0x73), "e0060173 00000061"),
    (Array([IDENTIFIER], 0x98), "e0120198f275ea5e0c574ad7b11ab20c563d3b71"),
    (Array([1], 0x54, Symbol("d")), "e0070100a301645401"),
]


def same(value: Any, other: Any) -> bool:
    """Whether both are equal, and of one type, to the innermost value."""
    if type(value) is not type(other) or value != other:
        return False
    if isinstance(value, list):
        return all(map(same, value, other))
    if isinstance(value, dict):
        return all(map(same, [*value, *value.values()], [*other, *other.values()]))
    return True


@pytest.mark.parametrize(("value", "data"), BOTH + READ, ids=str)
def test_values_are_read(value: Any, data: str) -> None:
    content = bytes.fromhex(data)
    found, end = decode_value(b"\xff" + content, 1)
    assert end == len(content) + 1
    assert same(found, value), found


@pytest.mark.parametrize(("value", "data"), BOTH, ids=str)
def test_values_are_written(value: Any, data: str) -> None:
    buffer = bytearray(b"\xff")
    encode_value(buffer, value)
    assert buffer[1:] == bytes.fromhex(data)


@pytest.mark.parametrize(("array", "data"), ARRAYS, ids=str)
def test_arrays(array: Array, data: str) -> None:
    found, end = decode_value(bytes.fromhex(data))
    assert same(found, array)
    assert (found.code, found.descriptor, end) == (
        array.code,
        array.descriptor,
        len(bytes.fromhex(data)),
    )
    buffer = bytearray()
    encode_value(buffer, array)
    assert buffer == bytes.fromhex(data)


def test_an_array_without_constructor_has_that_of_its_first_value() -> None:
    buffer = bytearray()
    encode_value(buffer, Array(["a"]))
    assert decode_value(bytes(buffer)) == (["a"], len(buffer))


def test_plain_integers_are_written_as_int_or_long() -> None:
    buffer = bytearray()
    encode_value(buffer, 2**31)
    assert same(decode_value(bytes(buffer))[0], Long(2**31))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (Decimal32(bytes.fromhex("32800001")), "1"),
        (Decimal32(bytes.fromhex("b2800001")), "-1"),
        (Decimal32(bytes.fromhex("6cb8967f")), "9999999"),
        (Decimal32(bytes.fromhex("78000000")), "Infinity"),
        (Decimal64(bytes.fromhex("31a000000000000f")), "1.5"),
        (Decimal64(bytes.fromhex("f8") + bytes(7)), "-Infinity"),
        (Decimal128(bytes.fromhex("3040") + bytes(13) + b"\x2a"), "42"),
    ],
    ids=str,
)
def test_decimals(value: Decimal32 | Decimal64 | Decimal128, number: str) -> None:
    assert value.to_decimal() == Decimal(number)


def test_a_decimal_that_is_no_number() -> None:
    assert Decimal64(b"\x7c" + bytes(7)).to_decimal().is_nan()


DAMAGED = [
    ("", "ends within a value, at byte 0"),
    ("00", "ends within"),
    ("0040", "ends within"),
    ("50", "ends within"),
    ("7100", "ends within"),
    ("98f275", "ends within"),
    ("a105aa", "ends within"),
    ("b0ffffffff", "ends within"),
    ("a102c328", "not UTF-8"),
    ("a301ff", "not ASCII"),
    ("5602", "neither 0 nor 1"),
    ("7300110000", "no character"),
    ("a200", "constructor 0xa2"),
    ("3f", "constructor 0x3f"),
    ("c0", "ends within"),
    ("c005014040", "ends within"),
    ("c0030140a1", "not that of its elements"),
    ("c0010540", "has 5 elements"),
    ("d0000000047fffffff", "has 2147483647 elements"),
    ("c1020340", "has 3 elements"),
    ("c1020140", "odd number"),
    ("c10302c0010040", "as key"),
    ("f000000005 7fffffff40", f"more than {MAX_VALUES} values"),
    ("e0030552aa", "has 5 elements"),
    ("e0020100", "ends within"),
    ("00" * 70 + "40", "nested more than"),
    ("c0ff01" * 3, "ends within"),
]


@pytest.mark.parametrize(("data", "reason"), DAMAGED)
def test_damage_is_refused(data: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as error:
        decode_value(bytes.fromhex(data))
    assert error.value.position is not None


def test_nesting_is_limited() -> None:
    data = b"\x45"
    for _ in range(70):
        data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\0\0\0\1" + data
    with pytest.raises(RemoteProtocolError, match="nested more than 64 deep"):
        decode_value(data)


@pytest.mark.parametrize(
    "value",
    [2**63, UByte(256), UInt(-1), UInt(2**32), Symbol("\u20ac"), "\ud800", object(), (1,),
     Decimal32(b"1"), [object()], Array([1, "a"], 0x71), Char("ab")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_type_is_not_written(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        encode_value(bytearray(), value)


@pytest.mark.parametrize("key", ["98{:032x}", "0053ff82{:016x}"], ids=["uuid", "described"])
def test_keys_that_a_peer_can_choose_with_the_same_hash_are_limited(key: str) -> None:
    pairs = [bytes.fromhex(key.format(number)) + b"\x40" for number in range(MAX_WEAK_KEYS + 1)]
    body = b"".join(pairs)
    head = (len(body) + 4).to_bytes(4, "big") + (2 * len(pairs)).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match=f"more than {MAX_WEAK_KEYS} keys"):
        decode_value(b"\xd1" + head + body)
