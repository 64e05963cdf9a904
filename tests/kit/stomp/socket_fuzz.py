"""Random frames of many clients at once to a STOMP port, over real sockets.

`python -m tests.kit.stomp.socket_fuzz 1000000 [SEED]` sends a million frames to brokers in memory;
it fails if a broker does not serve another client afterwards, or more than `MEMORY` is kept.
"""

from __future__ import annotations

import random
import sys
import tracemalloc

import anyio
from anyio.abc import ByteStream

from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.stomp.client import StompClient

CLIENTS = 8
FRAMES_A_CLIENT = 200
DAMAGED = 0.01
MEMORY = 64 << 20
"""Bytes that may be kept when brokers and clients have ended."""
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


async def attack(port: int, chance: random.Random, frames: int) -> None:
    """Send frames while reading responses; the broker may end the connection."""
    try:
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(CONNECT)
            async with anyio.create_task_group() as group:
                group.start_soon(drain, stream)
                for _ in range(frames):
                    data = frame(chance)
                    if chance.random() < DAMAGED:
                        data = data[: chance.randrange(len(data))]
                    await stream.send(data)
                group.cancel_scope.cancel()
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


async def drain(stream: ByteStream) -> None:
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


async def run(frames: int, seed: int = 1) -> int:
    """Send about so many frames; return the bytes that are kept afterwards."""
    tracemalloc.start()
    try:
        for number in range(0, frames, CLIENTS * FRAMES_A_CLIENT):
            await _round(random.Random(seed * 1_000_003 + number))
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < MEMORY, f"{kept} bytes"
    return kept


async def _round(chance: random.Random) -> None:
    """Attack a new broker, which must serve a client in the end."""
    async with EmbeddedTestBroker(BrokerService("fuzz", persistent=False)) as broker:
        connector = broker.service.add_connector("stomp://127.0.0.1:0")
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                seed = chance.randrange(2**32)
                group.start_soon(attack, port, random.Random(seed), FRAMES_A_CLIENT)
        client = StompClient(await anyio.connect_tcp("127.0.0.1", port))
        async with client.stream:
            await client.connect()
            await client.done("SEND", {"destination": "/queue/well"}, "x")


if __name__ == "__main__":
    _frames, _seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"{anyio.run(run, _frames, _seed)} bytes kept, no failure")
