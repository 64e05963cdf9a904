"""The duplicate audit: a window of sequence numbers for each of the most recent producers.

It is bounded to the `max_producers` most recently used producers, and to the last `max_depth`
sequence numbers of each. Older numbers count as new. The window moves by words of 64 bits, so the
cost of recording a number is independent of the depth, unlike in `pyjms.wire.sequence_window`,
whose windows are small and end at an exact number.
(activemq-broker T26)
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.attribute import count

_WORD: Final = 64


def audited_producers(default: int) -> int:
    """Declare the attribute for the number of producers of an audit."""
    return count(default, "Number of producers that the audit remembers.", minimum=1)


def audit_depth(default: int, audit: str = "the audit") -> int:
    """Declare the attribute for the number of messages of each producer."""
    return count(default, f"Number of messages of each producer that {audit} remembers.", minimum=1)


class _Window:
    """The recorded numbers, as words of 64 bits by index."""

    __slots__ = ("highest", "words")

    def __init__(self) -> None:
        self.highest = -1
        self.words: dict[int, int] = {}

    def add(self, number: int, words_kept: int) -> bool:
        """Record `number`; return whether it was already recorded. Older numbers count as new."""
        index, bit = number // _WORD, 1 << (number % _WORD)
        words = self.words
        word = words.get(index)
        if word is not None:
            if word & bit:
                return True
            words[index] = word | bit
            return False
        if not words:
            self.highest = index  # the first number of a producer is not a duplicate
        lowest = max(self.highest, index) - words_kept + 1
        if index < lowest:
            return False  # a duplicate is less harmful than a lost message
        words[index] = bit
        if index > self.highest:
            self.highest = index
            for old in [old for old in words if old < lowest]:
                del words[old]
        return False

    def forget(self, number: int) -> None:
        index = number // _WORD
        if index in self.words:
            self.words[index] &= ~(1 << (number % _WORD))


class MessageAudit:
    """Detects repeated message ids. Source: ActiveMQMessageAudit."""

    def __init__(self, max_depth: int = 2048, max_producers: int = 64) -> None:
        self.max_depth = max_depth
        self.max_producers = max_producers
        self._words_kept = max(1, -(-max_depth // _WORD))
        self._windows: OrderedDict[ProducerId, _Window] = OrderedDict()
        self._last_id: ProducerId | None = None
        self._last: _Window = _Window()

    def is_duplicate(self, message_id: MessageId) -> bool:
        """Record `message_id`; return whether it was already recorded."""
        producer_id = message_id.producer_id
        if producer_id is None:
            return False
        window = self._last if producer_id is self._last_id else self._window(producer_id)
        return window.add(message_id.producer_sequence_id, self._words_kept)

    def rollback(self, message_id: MessageId) -> None:
        """Remove `message_id`, so that it is accepted again."""
        producer_id = message_id.producer_id
        window = None if producer_id is None else self._windows.get(producer_id)
        if window is not None:
            window.forget(message_id.producer_sequence_id)

    def _window(self, producer_id: ProducerId) -> _Window:
        windows = self._windows
        window = windows.get(producer_id)
        if window is None:
            window = windows[producer_id] = _Window()
            if len(windows) > self.max_producers:
                windows.popitem(last=False)
        else:
            windows.move_to_end(producer_id)
        self._last_id = producer_id
        self._last = window
        return window
