"""Random bodies for STOMP's transformations: XML, JSON and serialized objects, damaged.

`python -m tests.kit.stomp.body_fuzz 1000000 [SEED]` converts a million.
"""

from __future__ import annotations

import random
import sys

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import ActiveMQObjectMessage
from pyjms_broker.connector.stomp.messages import received_body, transformed_body

PARTS = [
    b"<map>", b"</map>", b"<entry>", b"</entry>", b"<string>", b"</string>", b"<int>5</int>",
    b"<list/>", b"<null/>", b"&amp;", b"&#x0;", b"&x;", b"<!DOCTYPE a>", b"<![CDATA[", b"]]>",
    b'{"map":', b'{"entry":', b"[", b"]", b"}", b",", b'"string":', b'"a"', b'"int":5', b"1e999",
    b'"$":1', b'"@class":"x"', b"null", b"true", b"\\ud800", b"\xff", b" ", b"99999999999999999999",
]  # fmt: skip
JAVA = [
    b"\xac\xed\x00\x05", b"t\x00\x01a", b"sr\x00\x11java.lang.Integer", b"\x12\xe2\xa0\xa4\xf7\x81\x878",
    b"\x02\x00\x01I\x00\x05value", b"xr\x00\x10java.lang.Number\x86\xac\x95\x1d\x0b\x94\xe0\x8b\x02\x00\x00",
    b"xp\x00\x00\x00\x05", b"sr\x00\x13java.util.ArrayListx\x81\xd2\x1d\x99\xc7a\x9d\x03\x00\x01I\x00\x04size",
    b"w\x04\x00\x00\x00\x02", b"q\x00~\x00\x01", b"q\x00~\x00\x00", b"x", b"p", b"y", b"|\xff\xff\xff\xff",
]  # fmt: skip
NAMES = ["jms-map-xml", "jms-map-json", "jms-object-xml", "jms-object-json"]


def run(inputs: int, seed: int = 1) -> int:
    """Convert random bodies; return the number converted. Fails on an unexpected exception."""
    chance = random.Random(seed)
    converted = 0
    for number in range(inputs):
        try:
            if number % 3:
                body = b"".join(chance.choices(PARTS, k=chance.randrange(30)))
                message = received_body(chance.choice(NAMES), body)
            else:
                body = JAVA[0] + b"".join(chance.choices(JAVA, k=chance.randrange(12)))
                message = ActiveMQObjectMessage(content=body)
            transformed_body(message, chance.choice(["jms-xml", "jms-json"]))
            converted += 1
        except JMSException:
            continue
    return converted


if __name__ == "__main__":
    print(f"{run(int(sys.argv[1]), *map(int, sys.argv[2:3]))} converted, no failure")
