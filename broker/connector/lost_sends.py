"""Persistent sends that still waited for room when their connection went: no store has them.

A later send of the same producer may be stored, so its number does not tell. (ActiveMQ T27)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.region.flow_control import ParkedSend
from pyjms.wire.openwire.commands import ProducerId

__all__ = ["LostSends"]

_MOST: Final = 50_000
"""Sends that are remembered, of all producers together; a connection has about 1000 at most."""


class LostSends:
    """The sequence numbers by producer, for a client that comes back and sends them again."""

    def __init__(self, most: int = _MOST) -> None:
        """Remember at most `most` of them; those of the producers that came first go first."""
        self._most = most
        self._count = 0
        self._of: dict[ProducerId, set[int]] = {}

    def note(self, sends: Iterable[ParkedSend]) -> None:
        """Remember those of `sends` that never came in."""
        for send in sends:
            message, message_id = send.message, send.message.message_id
            if send.came_in or not message.persistent:
                continue
            if message.producer_id is not None and message_id is not None:
                self._add(message.producer_id, message_id.producer_sequence_id)

    def returned(self, producer_id: ProducerId, stored: int) -> None:
        """Forget what comes after `stored`, the last that the store has: that is let in anyway."""
        numbers = self._of.pop(producer_id, None)
        if numbers is not None:
            self._count -= len(numbers)
            for sequence in numbers:
                if sequence <= stored:
                    self._add(producer_id, sequence)

    def take(self, producer_id: ProducerId | None, sequence: int) -> bool:
        """Return whether it was lost, and forget it: it comes now."""
        numbers = None if producer_id is None else self._of.get(producer_id)
        if producer_id is None or numbers is None or sequence not in numbers:
            return False
        numbers.remove(sequence)
        self._count -= 1
        if not numbers:
            del self._of[producer_id]
        return True

    def _add(self, producer_id: ProducerId, sequence: int) -> None:
        numbers = self._of.setdefault(producer_id, set())
        if sequence not in numbers:
            numbers.add(sequence)
            self._count += 1
        while self._count > self._most:
            self._count -= len(self._of.pop(next(iter(self._of))))
