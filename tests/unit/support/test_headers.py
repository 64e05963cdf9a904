"""Headers as handlers see them."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.jms.types import Byte, Float, Long, Short
from pyjms.support.messaging import JmsHeaders, SimpleJmsHeaderMapper

MAPPER = SimpleJmsHeaderMapper()


def test_outbound(oracle: dict[str, Any]) -> None:
    recorded = oracle["converters"]["SimpleJmsHeaderMapper.fromHeaders"]
    message = Message()
    before = message.priority
    MAPPER.from_headers(
        {
            JmsHeaders.CORRELATION_ID: 77, JmsHeaders.REPLY_TO: Queue("r"), JmsHeaders.TYPE: "T",
            JmsHeaders.PRIORITY: 9, "contentType": "text/plain", "plain": "x", "number": 5,
            "with-dash": 1, "JMSXGroupID": "g", "none": None, "list": [1], "id": uuid.uuid4(),
            "timestamp": Long(5), "jms_other": "x",
        },
        message,
    )  # fmt: skip
    assert message.correlation_id == recorded["JMSCorrelationID"]
    assert message.type == recorded["JMSType"]
    assert str(message.reply_to) == recorded["JMSReplyTo"]
    assert message.priority == before
    assert sorted(message.properties) == recorded["propertyNames"]
    assert message.properties["content_type"] == "text/plain"


@pytest.mark.fact(
    "spring-jms 5.4/jms_correlationId", "spring-jms 5.4/jms_replyTo, jms_type",
    "spring-jms 5.4/contentType",
    "spring-jms 5.4/jms_destination, jms_deliveryMode, jms_expiration, jms_messageId, jms_priority, jms_redelivered, jms_timestamp",
)  # fmt: skip
def test_each_row(oracle: dict[str, Any]) -> None:
    message = Message()
    message.message_id, message.destination = "ID:1", Queue("d")
    MAPPER.from_headers({"jms_correlationId": "c", "jms_replyTo": "r", "jms_type": 5}, message)
    assert (message.correlation_id, message.reply_to, message.type) == ("c", None, None)
    inbound_only = {
        "jms_destination": Queue("x"), "jms_deliveryMode": 1, "jms_expiration": 5,
        "jms_messageId": "ID:9", "jms_priority": 9, "jms_redelivered": True, "jms_timestamp": 5,
    }  # fmt: skip
    MAPPER.from_headers(inbound_only, message)
    headers = MAPPER.to_headers(message)
    assert {name: headers[name] for name in inbound_only} == {
        "jms_destination": Queue("d"), "jms_deliveryMode": 2, "jms_expiration": 0,
        "jms_messageId": "ID:1", "jms_priority": 4, "jms_redelivered": False, "jms_timestamp": 0,
    }  # fmt: skip
    assert dict(message.properties) == {}
    values = {"a": True, "b": Byte(1), "c": Short(1), "d": 1, "e": Long(1), "f": Float(1), "g": 1.5,
              "h": "s"}  # fmt: skip
    MAPPER.from_headers({**values, "contentType": "json", "none": None, "set": {1}}, message)
    assert dict(message.properties) == {**values, "content_type": "json"}
    headers = MAPPER.to_headers(message)
    assert {name: headers[name] for name in values} == values
    assert headers["contentType"] == "json"
    assert "content_type" not in headers


@pytest.mark.fact("spring-jms 5.4.1")
def test_what_cannot_be_set_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    message = Message()
    with caplog.at_level(logging.DEBUG, "pyjms.support.messaging"):
        MAPPER.from_headers({"jms_unknown": "x", "bytes": b"x", "": "x", "big": 2**70}, message)
        MAPPER.from_headers({"JMSXGroupSeq": "no number", "fine": 1}, message)
    assert dict(message.properties) == {"fine": 1}
    named = [record.args for record in caplog.records if isinstance(record.args, tuple)]
    assert [arguments[0] for arguments in named if arguments] == [
        "bytes", "", "big", "JMSXGroupSeq",
    ]  # fmt: skip


@pytest.mark.fact("spring-jms 5.4.2", "spring-jms 5.4.3")
def test_inbound(oracle: dict[str, Any]) -> None:
    recorded = oracle["converters"]["SimpleJmsHeaderMapper.toHeaders (name -> type)"]
    message = TextMessage("x")
    message.correlation_id, message.destination, message.message_id = "c", Queue("d"), "ID:1"
    message.type = "t"
    message.properties.update({"content_type": "json", "num": 5})
    headers = MAPPER.to_headers(message)
    assert set(headers) == set(recorded)
    python = {"String": str, "UUID": uuid.UUID, "Integer": int, "ActiveMQQueue": Queue,
              "Long": Long, "Boolean": bool}  # fmt: skip
    for name, kind in recorded.items():
        assert isinstance(headers[name], python[kind]), name
    bare = MAPPER.to_headers(Message())
    assert set(bare) == {
        "id", "timestamp", "jms_deliveryMode", "jms_expiration", "jms_priority",
        "jms_redelivered", "jms_timestamp",
    }  # fmt: skip
    sent = Message()
    MAPPER.from_headers(bare, sent)
    assert list(sent.properties) == ["timestamp"]  # a UUID is no property type, a long is one


@pytest.mark.fact("spring-jms 5.4.4")
def test_prefixes() -> None:
    mapper = SimpleJmsHeaderMapper(inbound_prefix="in_", outbound_prefix="out_")
    message = Message()
    mapper.from_headers({"a": 1, "out_b": 2, "jms_type": "t"}, message)
    assert dict(message.properties) == {"out_a": 1, "out_b": 2}
    message.properties["in_c"] = 3
    headers = mapper.to_headers(message)
    assert {"in_out_a", "in_out_b", "in_c"} <= set(headers)
    assert headers["jms_type"] == "t"


def test_no_prefix_by_default() -> None:
    assert (MAPPER.inbound_prefix, MAPPER.outbound_prefix) == ("", "")
