"""Messages that cannot be read are delivered empty, and do not end their consumer."""

from __future__ import annotations

import random
import zlib

import pytest

from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMessage,
    ActiveMQTextMessage,
    MessageDispatch,
    MessageId,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms.wire.stomp import Frame
from pyjms_broker.connector.stomp.headers import DestinationNames
from pyjms_broker.connector.stomp.messages import to_frame


def frame_of(message: ActiveMQMessage) -> Frame:
    message.message_id = MessageId("ID:m")
    names = DestinationNames(lambda kind: kind("unused"))
    dispatch = MessageDispatch(None, Queue("q"), message)
    return to_frame(dispatch, message, names, "1.2")


@pytest.mark.parametrize(
    "message",
    [
        ActiveMQTextMessage(content=b"\0\0\0\x09x"),
        ActiveMQTextMessage(content=b"no zlib", compressed=True),
        ActiveMQBytesMessage(content=b"\0\0\0\x09" + zlib.compress(b"x"), compressed=True),
        ActiveMQTextMessage(marshalled_properties=b"\0\0\0\x01\0"),
    ],
    ids=["text", "compression", "bytes", "properties"],
)
def test_damage(message: ActiveMQMessage, caplog: pytest.LogCaptureFixture) -> None:
    frame = frame_of(message)
    assert frame.body == b""
    assert frame.headers["destination"] == "/queue/q"
    assert "ID:m cannot be read for a STOMP client" in caplog.text


@pytest.mark.parametrize("kind", [ActiveMQTextMessage, ActiveMQBytesMessage])
@pytest.mark.parametrize("size", [4_000_000, 5_000_000, 90_000_000])
def test_a_small_message_does_not_become_a_giant_one(
    kind: type[ActiveMQMessage], size: int
) -> None:
    length = size.to_bytes(4, "big")
    plain = bytes(size)
    content = zlib.compress(length + plain) if kind is ActiveMQTextMessage else b""
    message = kind(content=content or length + zlib.compress(plain), compressed=True)
    frame = frame_of(message)
    assert len(frame.body) == (size if size < 4 * 1024 * 1024 else 0)
    assert ("transformation-error" in frame.headers) == (not frame.body)


def test_giant_properties_do_not_become_headers(caplog: pytest.LogCaptureFixture) -> None:
    for size in (1_000_000, 1_100_000):
        properties = encode_map({"p": "x" * size})
        frame = frame_of(ActiveMQTextMessage(marshalled_properties=properties))
        refused = "transformation-error" in frame.headers
        assert refused == (size > 1024 * 1024) == ("p" not in frame.headers)
    assert "can become headers" in caplog.text


def test_a_large_message_of_text_is_inflated() -> None:
    text = random.Random(1).randbytes(3_000_000).hex().encode()
    content = zlib.compress(len(text).to_bytes(4, "big") + text)
    assert frame_of(ActiveMQTextMessage(content=content, compressed=True)).body == text


def test_halves_of_surrogate_pairs() -> None:
    message = ActiveMQTextMessage(content=b"\0\0\0\x03\xed\xa0\x80", correlation_id="\ud800")
    assert frame_of(message).body == b"?"


def test_names() -> None:
    names = DestinationNames(lambda kind: kind("ID:c:1"))
    mine = names.destination("/temp-queue/mine")
    assert mine == TemporaryQueue("ID:c:1") == names.destination("/temp-queue/mine")
    assert names.text(mine) == "/temp-queue/mine"
    assert names.text(TemporaryQueue("ID:d:1")) == "/remote-temp-queue/ID:d:1"
    assert names.text(Queue("a,topic://b")) == "/queue/a,/topic/b"
    assert names.destination("/queue/a,/topic/b") == Queue("a,topic://b")
