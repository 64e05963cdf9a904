"""Bodies of messages as the console shows them, whatever was sent."""

from __future__ import annotations

import zlib

import pytest

from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms_broker.console.model.messages import LIMIT, read_body

KINDS = (
    *(ActiveMQTextMessage, ActiveMQBytesMessage, ActiveMQMapMessage),
    *(ActiveMQStreamMessage, ActiveMQObjectMessage, ActiveMQBlobMessage),
)


def test_a_text() -> None:
    body = read_body(ActiveMQTextMessage(content=encode_text("grün")))
    assert (body.kind, body.text, body.note) == ("TextMessage", "grün", "")


def test_a_compressed_text() -> None:
    content = zlib.compress(encode_text("short"))
    assert read_body(ActiveMQTextMessage(content=content, compressed=True)).text == "short"


def test_a_long_text_is_cut() -> None:
    body = read_body(ActiveMQTextMessage(content=encode_text("x" * 100_000)))
    assert body.text is not None
    assert len(body.text) == LIMIT
    assert body.note == "The first 65,536 of 100,000 are shown."


def test_bytes_are_hexadecimal() -> None:
    body = read_body(ActiveMQBytesMessage(content=b"<b>\x00\xff" + b"a" * 12))
    assert body.text == (
        "000000  3c 62 3e 00 ff 61 61 61 61 61 61 61 61 61 61 61  <b>..aaaaaaaaaaa\n"
        "000010  61                                               a"
    )


def test_a_map_has_names_types_and_values() -> None:
    content = encode_map({"a": "x", "n": Long(5), "b": True, "d": 0.5})
    assert read_body(ActiveMQMapMessage(content=content)).entries == (
        *(("a", "string", "x"), ("n", "long", "5")),
        *(("b", "boolean", "True"), ("d", "double", "0.5")),
    )


def test_objects_are_not_deserialised() -> None:
    body = read_body(ActiveMQObjectMessage(content=b"\xac\xed\x00\x05sr"))
    assert "nothing is deserialised" in body.note
    assert body.text is not None
    assert body.text.startswith("000000  ac ed 00 05")


def test_a_blob_names_its_url() -> None:
    body = read_body(ActiveMQBlobMessage(remote_blob_url="http://files/1"))
    assert ("URL", "string", "http://files/1") in body.entries


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize(
    "content", [None, b"", b"\x00", b"\xff" * 50], ids=["none", "empty", "zero", "ones"]
)
def test_nothing_that_is_sent_is_an_error(
    kind: type[ActiveMQMessage], compressed: bool, content: bytes | None
) -> None:
    message = kind()
    message.content, message.compressed = content, compressed
    body = read_body(message)
    assert body.text or body.entries or body.note
