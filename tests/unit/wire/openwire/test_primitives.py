from __future__ import annotations

import math
from typing import Any

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.primitives import (
    decode_map,
    decode_text,
    decode_values,
    encode_map,
    encode_text,
    encode_values,
)

# code, value, layout (openwire-encoding 7)
VALUES: list[tuple[str, Any, str]] = [
    ("null", None, "00"),
    ("boolean", True, "0101"),
    ("boolean", False, "0100"),
    ("byte", Byte(-2), "02fe"),
    ("char", Char("é"), "0300e9"),
    ("short", Short(-2), "04fffe"),
    ("int", 5, "0500000005"),
    ("int", -(2**31), "0580000000"),
    ("long", Long(5), "060000000000000005"),
    ("long", 2**31, "060000000080000000"),
    ("double", 1.5, "073ff8000000000000"),
    ("float", Float(1.5), "083fc00000"),
    ("string", "a\0", "090003" + "61c080"),
    ("bytes", b"\x01", "0a0000000101"),
]


@pytest.mark.fact(
    "openwire-encoding 7/0",
    "openwire-encoding 7/1",
    "openwire-encoding 7/2",
    "openwire-encoding 7/3",
    "openwire-encoding 7/4",
    "openwire-encoding 7/5",
    "openwire-encoding 7/6",
)
@pytest.mark.parametrize(("name", "value", "layout"), VALUES)
def test_each_type_has_its_code_and_comes_back_as_itself(
    name: str, value: Any, layout: str
) -> None:
    assert encode_values([value]).hex() == layout
    (back,) = decode_values(bytes.fromhex(layout))
    assert back == value
    expected = Long if name == "long" else type(value)
    assert type(back) is expected


@pytest.mark.parametrize(("_name", "value", "layout"), VALUES)
def test_maps_hold_the_same_values_under_names(_name: str, value: Any, layout: str) -> None:
    data = encode_map({"k": value})
    assert data.hex() == "00000001" + "00016b" + layout
    assert decode_map(data) == {"k": value}


@pytest.mark.fact("openwire-encoding 7/4", "openwire-encoding 7/5")
def test_maps_and_lists_nest() -> None:
    values = {"m": {"l": [1, "two", {"x": None}], "e": {}}, "t": (True,)}
    assert decode_map(encode_map(values)) == {"m": values["m"], "t": [True]}


@pytest.mark.fact("openwire-encoding 7/6")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * 8190, 9),
        ("x" * 8191, 13),
        ("é" * 8190, 9),
        ("€" * 8191, 13),
        ("😀" * 4095, 9),
        ("😀" * 4096, 13),
    ],
)
def test_strings_from_8191_utf16_units_on_are_big(text: str, code: int) -> None:
    data = encode_values([text])
    assert data[0] == code
    assert decode_values(data) == [text]
    assert encode_map({"": text})[6] == code


@pytest.mark.parametrize("layout", ["09000161", "0d0000000161"])
def test_strings_of_both_codes_are_read_at_any_length(layout: str) -> None:
    assert decode_values(bytes.fromhex(layout)) == ["a"]


def test_top_level_map_strings_are_standard_utf8_where_java_reads_them_so() -> None:
    assert encode_map({"k": "😀"}).endswith(b"\x09\0\x04" + "😀".encode())
    assert encode_map({"k": "é"}).endswith(b"\x09\0\x02" + "é".encode())


def test_nested_and_stream_strings_are_modified_utf8() -> None:
    surrogates = bytes.fromhex("eda0bdedb880")
    assert encode_map({"k": ["😀"]}).endswith(surrogates)
    assert encode_values(["😀"]).endswith(surrogates)
    assert encode_text("😀").endswith(surrogates)


def test_a_lone_surrogate_in_a_map_is_preserved() -> None:
    values = {"k": "\ud83d😀"}
    assert decode_map(encode_map(values)) == values


def test_map_strings_are_read_in_both_forms_others_are_not() -> None:
    standard, modified = "😀\0".encode(), bytes.fromhex("eda0bdedb880c080")
    for data in (standard, modified):
        entry = b"\0\0\0\1\0\1k\x09" + len(data).to_bytes(2, "big") + data
        assert decode_map(entry) == {"k": "😀\0"}
    with pytest.raises(RemoteProtocolError, match="4-byte"):
        decode_values(b"\x09\0\5" + standard)
    with pytest.raises(RemoteProtocolError, match="4-byte"):
        decode_text(b"\0\0\0\5" + standard)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0])
def test_extreme_floats(value: Any) -> None:
    back = decode_values(encode_values([value, Float(value)]))
    assert back == [value, value]
    assert [type(v) for v in back] == [float, Float]


def test_nan() -> None:
    (back,) = decode_values(encode_values([math.nan]))
    assert isinstance(back, float)
    assert math.isnan(back)


def test_other_bytes_and_subclasses_of_the_plain_types() -> None:
    class Name(str):
        __slots__ = ()

    class Ratio(float):
        __slots__ = ()

    back = decode_values(encode_values([bytearray(b"a"), memoryview(b"b"), Name("n"), Ratio(0.5)]))
    assert back == [b"a", b"b", "n", 0.5]


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        Byte(128),
        Short(-32769),
        Long(2**63),
        Float(1e39),
        Char("ab"),
        Char(""),
        Char("😀"),
        object(),
        {1},
        1j,
        [object()],
        {"k": object()},
    ],
)
def test_values_without_a_code_are_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        encode_map({"k": value})


@pytest.mark.fact("openwire-encoding 8/ActiveMQStreamMessage")
@pytest.mark.parametrize("value", [[], (), {}])
def test_a_stream_holds_no_maps_and_lists(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="stream"):
        encode_values([value])


@pytest.mark.parametrize("layout", ["0b00000000", "0c00000000"])
def test_a_stream_with_maps_or_lists_is_refused(layout: str) -> None:
    with pytest.raises(RemoteProtocolError, match="stream"):
        decode_values(bytes.fromhex(layout))


def test_names_have_at_most_65535_bytes() -> None:
    assert decode_map(encode_map({"k" * 65535: 1})) == {"k" * 65535: 1}
    with pytest.raises(LocalProtocolError, match="65535"):
        encode_map({"k" * 65536: 1})


def nested_list(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_nest_64_deep_and_no_deeper() -> None:
    assert decode_map(encode_map({"k": nested_list(64)})) == {"k": nested_list(64)}
    with pytest.raises(LocalProtocolError, match="nest deeper"):
        encode_map({"k": nested_list(65)})
    with pytest.raises(RemoteProtocolError, match="nest deeper"):
        decode_map(b"\0\0\0\1\0\1k" + b"\x0c\0\0\0\1" * 65 + b"\0")


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        ("", "cut short", 0),
        ("00000001", "Count 1", 4),
        ("7fffffff" + "00" * 9, "Count 2147483647", 4),
        ("fffffffe", "Count -2", 4),
        ("00000001" + "00016b" + "0c7fffffff", "Count 2147483647", 12),
        ("00000001" + "00016b" + "0a7fffffff", "Count 2147483647", 12),
        ("00000001" + "00016b" + "0affffffff", "Count -1", 12),
        ("00000001" + "00016b" + "0e", "Unknown value type 14", 7),
        ("00000001" + "00ff6b" + "00", "Count 255", 6),
        ("00000001" + "00016b" + "0500", "cut short", 8),
    ],
)
def test_damaged_maps_are_refused_with_their_position(
    data: str, reason: str, position: int
) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        decode_map(bytes.fromhex(data))
    assert caught.value.position == position


def test_a_null_map_is_empty_and_a_nested_one_is_none() -> None:
    assert decode_map(bytes.fromhex("ffffffff")) == {}
    assert decode_map(bytes.fromhex("00000001" + "00016b" + "0bffffffff")) == {"k": None}


def test_bytes_after_the_values_are_ignored() -> None:
    assert decode_map(encode_map({"k": 1}) + b"xyz") == {"k": 1}
    assert decode_text(encode_text("a") + b"xyz") == "a"


@pytest.mark.fact("openwire-encoding 8/ActiveMQTextMessage")
@pytest.mark.parametrize("text", [None, "", "a", "\0", "é€😀", "x" * 70000])
def test_text_bodies(text: str | None) -> None:
    data = encode_text(text)
    assert decode_text(data) == text
    assert int.from_bytes(data[:4], "big", signed=True) == (-1 if text is None else len(data) - 4)
