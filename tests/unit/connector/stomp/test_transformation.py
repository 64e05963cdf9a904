"""Bodies from hostile senders, and the limits of transformations. (activemq-edges ST14)"""

from __future__ import annotations

import zlib

import pytest

from pyjms.errors import JMSException
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.commands import ActiveMQMapMessage, ActiveMQObjectMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.connector.stomp import messages as java_objects
from pyjms_broker.connector.stomp import messages as java_reader
from pyjms_broker.connector.stomp.messages import received_body, transformed_body

VALUES = [
    None, True, 5, -(2**31), Long(7), Short(-3), Byte(-1), Float(1.5), 2.5, Char("x"), "text \u20ac",
    "x" * 70_000, [], [1, "a", [None, True]], {}, {"a": {"b": [1.5]}, "c": 2},
]  # fmt: skip
CLASS = b"\xac\xed\x00\x05sr\x00\x01a" + bytes(8) + b"\x02\x00\x00x"
LIST = b"r\x00\x13java.util.ArrayListx\x81\xd2\x1d\x99\xc7a\x9d\x03\x00\x01I\x00\x04sizexp"
OWN_PARENT = CLASS + b"q\x00~\x00\x00"
OWN_MEMBER = b"\xac\xed\x00\x05s" + LIST + b"\0\0\0\1w\4\0\0\0\1" + b"q\x00~\x00\x01x"


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_objects_come_back(value: object) -> None:
    assert java_reader.loads(java_objects.dumps(value)) == value


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "data",
    [
        OWN_PARENT,
        OWN_MEMBER,
        CLASS + b"p",
        b"\xac\xed\x00\x05|\xff\xff\xff\xff\xff\xff\xff\xff",
        b"x",
    ],
    ids=["own parent", "own member", "unknown class", "long string", "no object"],
)
def test_objects_that_are_refused(data: bytes) -> None:
    with pytest.raises(JMSException):
        transformed_body(ActiveMQObjectMessage(content=data), "jms-xml")


@pytest.mark.parametrize(
    ("values", "size", "compressed"),
    [(10_001, 1, False), (1, 1024 * 1024, False), (1, 95_000_000, True)],
)
def test_maps_that_would_take_too_long_are_refused(
    values: int, size: int, compressed: bool
) -> None:
    content = encode_map({f"{number}": "x" * size for number in range(values)})
    message = ActiveMQMapMessage(content=zlib.compress(content) if compressed else content)
    message.compressed = compressed
    with pytest.raises(JMSException):
        transformed_body(message, "jms-map-json")


def test_a_map_as_large_as_is_converted() -> None:
    message = ActiveMQMapMessage(content=encode_map({f"{n}": n for n in range(10_000)}))
    found = transformed_body(message, "jms-map-json")
    assert found is not None
    assert found.body.count(b"9999") == 2


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("jms-map-xml", b'<!DOCTYPE a [<!ENTITY x "y">]><map/>'),
        ("jms-map-xml", b"<list>" * 100 + b"</list>" * 100),
        ("jms-map-json", b'{"a":' * 100_000),
        ("jms-map-json", b'{"map":{"entry":[' + b'{"a":1},' * 100_000 + b"1]}}"),
        ("jms-map-json", b" " * (1024 * 1024 + 1)),
        ("jms-map-json", b"\xff"),
        ("jms-object-xml", b"<java.lang.ProcessBuilder/>"),
        ("jms-map-json", b'{"map":{"entry":[["a"]]}}'),
    ],
    ids=["entities", "depth", "json depth", "elements", "size", "utf-8", "class", "arrays"],
)
def test_bodies_that_are_refused(name: str, body: bytes) -> None:
    with pytest.raises(JMSException):
        received_body(name, body)
