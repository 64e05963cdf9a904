from __future__ import annotations

import pytest

from pyjms.jms.mutf8 import decode_mutf8, decode_mutf8_lenient, encode_mutf8, utf16_length

# openwire-encoding 2.1
FORMS = [
    ("", ""),
    ("a\x7f", "617f"),
    ("\0", "c080"),
    ("\x80", "c280"),
    ("\u07ff", "dfbf"),
    ("\u0800", "e0a080"),
    ("\uffff", "efbfbf"),
    ("\U00010000", "eda080edb080"),
    ("😀", "eda0bdedb880"),
    ("\U0010ffff", "edafbfedbfbf"),
    ("\ud83d", "eda0bd"),
    ("\ude00\ud83d", "edb880eda0bd"),
    ("\ud83d😀\ude00\0", "eda0bd" + "eda0bdedb880" + "edb880" + "c080"),
    ("\ud7ff", "ed9fbf"),
]


@pytest.mark.parametrize(("text", "data"), FORMS)
def test_both_ways(text: str, data: str) -> None:
    assert encode_mutf8(text).hex() == data
    assert decode_mutf8(bytes.fromhex(data)) == text
    assert decode_mutf8_lenient(bytes.fromhex(data)) == text


def test_two_surrogates_in_a_row_are_one_character() -> None:
    assert decode_mutf8(encode_mutf8("\ud83d") + encode_mutf8("\ude00")) == "😀"


def test_a_raw_nul_is_read_as_one() -> None:
    assert decode_mutf8(b"a\0b") == "a\0b"


def test_four_byte_sequences_are_for_the_lenient_only() -> None:
    data = "a😀".encode()
    assert decode_mutf8_lenient(data) == "a😀"
    with pytest.raises(UnicodeDecodeError, match="4-byte") as caught:
        decode_mutf8(data)
    assert caught.value.start == 1


@pytest.mark.parametrize("data", ["80", "c3", "e282", "c1a1", "c3c3", "ff", "e28261"])
def test_bytes_of_neither_form_are_refused(data: str) -> None:
    for decode in (decode_mutf8, decode_mutf8_lenient):
        with pytest.raises(UnicodeDecodeError):
            decode(bytes.fromhex(data))


@pytest.mark.parametrize(("text", "units"), [("", 0), ("a€", 2), ("😀", 2), ("a😀\ud83d", 4)])
def test_length_in_utf16_units(text: str, units: int) -> None:
    assert utf16_length(text) == units
