"""Messages that cannot be read are delivered empty, and do not end their consumer."""

from __future__ import annotations

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
from pyjms.wire.stomp.frames import Frame
from pyjms_broker.connector.stomp.destinations import DestinationNames
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
