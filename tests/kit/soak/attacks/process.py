"""One process of hostile clients: each line of standard input is an attack.

python -m tests.kit.soak.attacks.process PORT LOG; a line is NAME SECONDS SEED.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.soak.attacks import ATTACKS
from tests.kit.soak.events import EventLog

logger = logging.getLogger("soak.hostile")

ENDS = (
    anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError,
    TimeoutError, AssertionError,
)  # fmt: skip
"""Expected reactions to an attacker: closed connections, refusals, timeouts."""


class Attacker:
    """Opens connections for one attack and closes them with it."""

    def __init__(self, port: int, seed: int, name: str) -> None:
        self.port = port
        self.chance = random.Random(seed)
        self.name = f"hostile-{name.replace(' ', '-')}-{seed}"
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        """Return a new socket to the broker."""
        stream = await anyio.connect_tcp("127.0.0.1", self.port)
        peer = Peer(stream, f"{self.name}-{len(self._peers)}")
        self._peers.append(peer)
        return peer

    async def connected(self) -> Peer:
        """Return a new JMS connection with a session and a producer."""
        peer = await self.peer()
        await peer.connect()
        return peer

    async def leave(self) -> None:
        with anyio.CancelScope(shield=True):
            for peer in self._peers:
                await peer.leave()


@asynccontextmanager
async def attacker(port: int, seed: int, name: str) -> AsyncIterator[Attacker]:
    made = Attacker(port, seed, name)
    try:
        yield made
    finally:
        await made.leave()


async def attack(port: int, log: EventLog, line: str) -> None:
    """Run one attack to its end."""
    name, seconds, seed = line.rsplit(maxsplit=2)
    log.write("attack", name)
    outcome = "done"
    try:
        async with attacker(port, int(seed), name) as made:
            with anyio.move_on_after(float(seconds)) as scope:
                await ATTACKS[name](made)
            if scope.cancelled_caught:
                outcome = "out of time"
    except* ENDS as group:
        outcome = "; ".join(sorted({type(error).__name__ for error in group.exceptions}))
        logger.info("%s: %r", name, group)
    except* Exception as group:
        logger.exception("%s", name)
        outcome = f"broken: {group.exceptions[0]!r}"
    log.write("attacked", name, outcome.replace("\n", " "))


async def serve(port: int, log: EventLog) -> None:
    async with anyio.create_task_group() as group:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            group.start_soon(attack, port, log, line)
        group.cancel_scope.cancel()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    anyio.run(serve, int(sys.argv[1]), EventLog(Path(sys.argv[2])))


if __name__ == "__main__":
    main()
