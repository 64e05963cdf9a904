"""The duplicate audit: which of the latest sequence numbers of each producer were seen.

One for all who look for duplicates: a client's connection, the broker's queues, subscriptions,
bridges and dead letters, and the JDBC store. It is bounded to the `producers` that were used last,
and to the last `depth` sequence numbers of each.

A number older than the window counts as new: reporting it as a duplicate would lose a valid
message, while a missed duplicate is a repetition that at-least-once delivery allows.

A window's numbers are bits in words of 64 by index, so that recording one costs the same at any
depth: one integer as a bit set, though simpler, would be copied whole, and the broker's queues
remember 10,000 numbers. (activemq-broker R8, T26; ActiveMQ: ActiveMQMessageAudit)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from pyjms.wire.openwire.commands import MessageId, ProducerId

K = TypeVar("K", bound=Hashable)


class SequenceWindow:
    """The sequence numbers seen among the latest `depth` of one producer."""

    __slots__ = ("_depth", "highest", "words")

    def __init__(self, first: int, depth: int) -> None:
        """Create a window that has seen the number `first`, wherever the producer begins."""
        self._depth = depth
        self.highest = first
        self.words = {first >> 6: 1 << (first & 63)}

    def add(self, number: int) -> bool:
        """Record `number`; return whether it was recorded before, within the window."""
        index, bit = number >> 6, 1 << (number & 63)
        words = self.words
        word = words.get(index, 0)
        if number > self.highest:
            self.highest = number
            words[index] = word | bit
            if not word:
                oldest = (number - self._depth) >> 6
                for old in [each for each in words if each < oldest]:
                    del words[old]
            return False
        if number <= self.highest - self._depth:
            return False
        words[index] = word | bit
        return word & bit != 0

    def remove(self, number: int) -> None:
        """Forget `number`, so that it counts as new when it arrives again."""
        index = number >> 6
        if index in self.words:
            self.words[index] &= ~(1 << (number & 63))


class SequenceAudit(Generic[K]):
    """The windows of the producers that were used last, by any key."""

    def __init__(self, depth: int, producers: int) -> None:
        self.depth = depth
        self.producers = producers
        self._windows: OrderedDict[K, SequenceWindow] = OrderedDict()

    def add(self, producer: K, number: int) -> bool:
        """Record a number of a producer; return whether it was recorded before."""
        window = self._windows.get(producer)
        if window is None:
            self._windows[producer] = SequenceWindow(number, self.depth)
            if len(self._windows) > self.producers:
                self._windows.popitem(last=False)
            return False
        self._windows.move_to_end(producer)
        return window.add(number)

    def remove(self, producer: K, number: int) -> None:
        """Forget a number, so that it counts as new when it arrives again."""
        window = self._windows.get(producer)
        if window is not None:
            window.remove(number)


class MessageAudit(SequenceAudit[tuple[object, ...]]):
    """The ids of messages that were seen, by the identities of their producers.

    An id without a producer is never a duplicate.
    """

    def __init__(self, depth: int = 2048, producers: int = 64) -> None:
        super().__init__(depth, producers)
        # successive messages have the same producer, an object that the wire format reuses
        self._producer: ProducerId | None = None
        self._window = SequenceWindow(0, depth)

    def is_duplicate(self, message_id: MessageId | None) -> bool:
        """Record a message and return whether it was recorded before."""
        producer = None if message_id is None else message_id.producer_id
        if message_id is None or producer is None:
            return False
        number = message_id.producer_sequence_id
        if producer is not self._producer:
            key = producer.identity
            known = self._windows.get(key)
            if known is None:
                found = self.add(key, number)
                self._producer, self._window = producer, self._windows[key]
                return found
            self._windows.move_to_end(key)
            self._producer, self._window = producer, known
        window = self._window
        if number == window.highest + 1 and number & 63:  # the usual case, written out
            window.highest = number
            window.words[number >> 6] |= 1 << (number & 63)
            return False
        return window.add(number)

    def forget(self, message_id: MessageId | None) -> None:
        """Accept the message when it arrives again."""
        if message_id is not None and message_id.producer_id is not None:
            self.remove(message_id.producer_id.identity, message_id.producer_sequence_id)
