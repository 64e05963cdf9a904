"""Random frames of many clients at once to a port of one protocol, over real sockets.

A protocol has two functions: `talk` yields what a client sends after it has connected, and `use`
serves to see that a client is served, alone and while others attack. A run fails if one is not, if
the broker logs a traceback, or if the process has grown by `MEMORY`. `python -m tests.kit.stomp.socket_fuzz 200000 [SEED]` sends so
many frames to brokers in memory, as `tests.kit.mqtt.socket_fuzz` does: about 4000 in each second of
CPU time.
"""

from __future__ import annotations

import logging
import random
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import ByteStream

from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

CLIENTS = 8
FRAMES_A_CLIENT = 200
MEMORY = 64 << 20
"""Bytes by which the process may grow after the first broker has ended."""

Talk: TypeAlias = Callable[[random.Random], Iterator[bytes]]
Use: TypeAlias = Callable[[ByteStream], Awaitable[None]]


async def attack(port: int, chance: random.Random, talk: Talk) -> None:
    """Send frames while reading answers; connect again when the broker ends the connection."""
    sent = 0
    while sent < FRAMES_A_CLIENT:
        sent += 1  # also for a connection that ends at once
        try:
            stream = await anyio.connect_tcp("127.0.0.1", port)
            async with stream, anyio.create_task_group() as group:
                group.start_soon(drain, stream)
                for data in talk(chance):
                    await stream.send(data)
                    sent += 1
                    if sent >= FRAMES_A_CLIENT:
                        break
                group.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


async def drain(stream: ByteStream) -> None:
    """Read until the connection ends."""
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


def memory() -> int:
    """Return the memory of this process, in bytes; tracemalloc would take three times as long."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def run(
    scheme: str,
    talk: Talk,
    use: Use,
    frames: int,
    seed: int = 1,
    options: Sequence[str] = ("",),
) -> int:
    """Send about so many frames; return the bytes that were added after the first broker.

    Each broker has the next of these options of its connector's URL.
    """
    first, tracebacks = 0, _Tracebacks()
    logging.getLogger().addHandler(tracebacks)
    try:
        for index, number in enumerate(range(0, frames, CLIENTS * FRAMES_A_CLIENT)):
            url = f"{scheme}://127.0.0.1:0{options[index % len(options)]}"
            await _round(url, talk, use, random.Random(seed * 1_000_003 + number))
            first = first or memory()
            assert not tracebacks.lines, "\n".join(tracebacks.lines)
    finally:
        logging.getLogger().removeHandler(tracebacks)
    added = memory() - first
    assert added < MEMORY, f"{added} bytes kept"
    return added


class _Tracebacks(logging.Handler):
    """Keeps what is logged with a traceback: an error that nobody has thought of."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and len(self.lines) < 5:
            self.lines.append(self.format(record))


async def _round(url: str, talk: Talk, use: Use, chance: random.Random) -> None:
    """Attack a new broker, which must serve a client meanwhile and afterwards."""
    async with EmbeddedTestBroker(BrokerService("fuzz", persistent=False)) as broker:
        connector = broker.service.add_connector(url)
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(attack, port, random.Random(chance.randrange(2**32)), talk)
            for _ in range(2):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await use(stream)
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await use(stream)


def main(scheme: str, talk: Talk, use: Use, options: Sequence[str] = ("",)) -> None:
    """Run as the program's arguments say."""
    frames, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"{anyio.run(run, scheme, talk, use, frames, seed, options)} bytes kept, no failure")
