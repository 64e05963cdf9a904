"""What attacks are given."""

from __future__ import annotations

import random
from typing import Protocol

from tests.kit.brokers.openwire_attacker import Peer

__all__ = ["Attacker"]


class Attacker(Protocol):
    """Opens connections for one attack; they are closed with it."""

    chance: random.Random
    name: str

    async def peer(self) -> Peer:
        """Return a new socket to the broker."""

    async def connected(self) -> Peer:
        """Return a new JMS connection with a session and a producer."""
