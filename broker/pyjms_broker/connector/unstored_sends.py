"""Persistent sends that were waiting for space when their connection was lost.

They are not stored, although a later send of the same producer may be. The highest stored sequence
number of a producer therefore does not suffice to tell whether a repeated send is a duplicate.
(activemq-broker T27)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.api.context import BlockedSend

__all__ = ["UnstoredSends"]

_CAPACITY: Final = 50_000
"""The maximum number of recorded sends of all producers; a connection has about 1000 at most."""


class UnstoredSends:
    """Sequence numbers of unstored sends by producer, for clients that reconnect and resend."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        """Record at most `capacity` sends; the oldest producers are dropped first."""
        self._capacity = capacity
        self._count = 0
        self._by_producer: dict[ProducerId, set[int]] = {}

    def record(self, sends: Iterable[BlockedSend]) -> None:
        """Record those of `sends` that are persistent and were never accepted."""
        for send in sends:
            message, message_id = send.message, send.message.message_id
            if send.is_admitted or not message.persistent:
                continue
            if message.producer_id is not None and message_id is not None:
                self._add(message.producer_id, message_id.producer_sequence_id)

    def producer_returned(self, producer_id: ProducerId, last_stored: int) -> None:
        """Drop the producer's numbers above `last_stored`, whose sends are accepted anyway."""
        numbers = self._by_producer.pop(producer_id, None)
        if numbers is not None:
            self._count -= len(numbers)
            for sequence in numbers:
                if sequence <= last_stored:
                    self._add(producer_id, sequence)

    def pop(self, producer_id: ProducerId | None, sequence: int) -> bool:
        """Remove a send, as it is stored now; return whether it was recorded as unstored."""
        numbers = None if producer_id is None else self._by_producer.get(producer_id)
        if producer_id is None or numbers is None or sequence not in numbers:
            return False
        numbers.remove(sequence)
        self._count -= 1
        if not numbers:
            del self._by_producer[producer_id]
        return True

    def _add(self, producer_id: ProducerId, sequence: int) -> None:
        numbers = self._by_producer.setdefault(producer_id, set())
        if sequence not in numbers:
            numbers.add(sequence)
            self._count += 1
        while self._count > self._capacity:
            self._count -= len(self._by_producer.pop(next(iter(self._by_producer))))
