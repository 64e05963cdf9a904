"""Random frames for a STOMP port; see `tests.kit.socket_fuzz`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from anyio.abc import ByteStream

from tests.kit import socket_fuzz
from tests.kit.stomp.client import StompClient

DAMAGED = 0.01
CONNECT = b"CONNECT\naccept-version:1.2\n\n\0"
COMMANDS = [
    b"SEND", b"SUBSCRIBE", b"UNSUBSCRIBE", b"ACK", b"NACK", b"BEGIN", b"COMMIT", b"ABORT", b"STOMP",
]  # fmt: skip
HEADERS = [
    b"destination:/queue/a", b"destination:/topic/a", b"destination:/temp-queue/a", b"id:1", b"id:2",
    b"destination:/queue/>", b"destination:a,b", b"transaction:t", b"transaction:u", b"receipt:1",
    b"ack:client", b"ack:client-individual", b"selector:a > 1", b"selector:(", b"browser:true",
    b"activemq.prefetchSize:1", b"activemq.subscriptionName:n", b"transformation:jms-map-json",
    b"transformation:jms-xml", b"reply-to:/temp-topic/b", b"expires:1", b"priority:99", b"a:1",
    b"content-length:3", b"content-length:x", b"amq-msg-type:text", b"persistent:true", b"\\q:1",
    b"JMSXGroupID:g", b"message-id:ID:1", b"subscription:1", b"no colon", b"AMQ_SCHEDULED_DELAY:x",
]  # fmt: skip
BODIES = [b"", b"abc", b"abc\0", b'{"map":""}', b"\xff", b"x" * 3000]


def frame(chance: random.Random) -> bytes:
    lines = [chance.choice(COMMANDS), *chance.sample(HEADERS, chance.randrange(1, 7))]
    return b"\n".join(lines) + b"\n\n" + chance.choice(BODIES) + b"\0\n"


def talk(chance: random.Random) -> Iterator[bytes]:
    """Yield what a client sends."""
    yield CONNECT
    while True:
        data = frame(chance)
        yield data[: chance.randrange(len(data))] if chance.random() < DAMAGED else data


async def use(stream: ByteStream) -> None:
    """Check that a client is served."""
    client = StompClient(stream)
    await client.connect()
    await client.done("SEND", {"destination": "/queue/well"}, "x")


async def run(frames: int, seed: int = 1) -> int:
    """Send about so many frames; return the bytes that were added."""
    return await socket_fuzz.run("stomp", talk, use, frames, seed)


if __name__ == "__main__":
    socket_fuzz.main("stomp", talk, use)
