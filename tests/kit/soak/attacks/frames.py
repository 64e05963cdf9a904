"""Invalid byte streams: garbage, wrong sizes, endless frames and handshakes."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio

from pyjms.jms.destination import Queue
from tests.kit.soak.attacks.types import Attacker

__all__ = ["FRAMES"]

FOREIGN: Final = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0",
    bytes.fromhex("16030100c8010000c40303") + bytes(range(190)),
    b"AMQP\0\1\0\0",
    b"\xff" * 4096,
    bytes(4096),
)
LENGTHS: Final = (-1, -(2**31), 0, 2**31 - 1, 104857601)
KINDS: Final = (1, 3, 4, 5, 6, 7, 8, 21, 22, 23, 28, 30, 60, 61, 100, 111, 255)


async def garbage(attacker: Attacker) -> None:
    chance = attacker.chance
    for _ in range(60):
        peer = await attacker.peer()
        await peer.stream.send(chance.choice((*FOREIGN, chance.randbytes(chance.randint(1, 5000)))))
        await peer.leave()


async def random_frames(attacker: Attacker) -> None:
    chance = attacker.chance
    for _ in range(60):
        peer = await attacker.peer()
        await peer.negotiate()
        body = bytes([chance.choice(KINDS)]) + chance.randbytes(chance.randrange(300))
        await peer.stream.send(struct.pack(">i", len(body)) + body)
        await peer.leave()


async def damaged_frames(attacker: Attacker) -> None:
    chance = attacker.chance
    for _ in range(40):
        peer = await attacker.connected()
        frame = bytearray(peer.format.encode(peer.message(Queue(attacker.name), b"x" * 100)))
        for _ in range(chance.choice((1, 3, 30))):
            frame[chance.randrange(4, len(frame))] = chance.randrange(256)
        await peer.stream.send(bytes(frame))
        await peer.leave()


async def giant_frames(attacker: Attacker) -> None:
    for length in LENGTHS * 4:
        peer = await attacker.peer()
        await peer.negotiate()
        await peer.stream.send(struct.pack(">i", length) + b"\1\2\3")
        await peer.leave()


async def unfinished_frames(attacker: Attacker) -> None:
    for _ in range(12):
        peer = await attacker.connected()
        await peer.stream.send(struct.pack(">i", 6 << 20) + bytes(5 << 20))
    await anyio.sleep_forever()


async def silent_sockets(attacker: Attacker) -> None:
    for _ in range(150):
        await attacker.peer()
    await anyio.sleep_forever()


async def half_handshakes(attacker: Attacker) -> None:
    hello = (await attacker.peer()).format.encode((await attacker.peer()).format.local_info())
    for cut in range(1, len(hello), 3):
        peer = await attacker.peer()
        await peer.stream.send(hello[:cut])
    await anyio.sleep_forever()


FRAMES: Final[Mapping[str, Callable[[Attacker], Awaitable[None]]]] = {
    "garbage": garbage,
    "random frames": random_frames,
    "damaged frames": damaged_frames,
    "giant frames": giant_frames,
    "unfinished frames": unfinished_frames,
    "silent sockets": silent_sockets,
    "half handshakes": half_handshakes,
}
