"""Messages on the links of a session, and those among them that are not settled.

A disposition may name any range, as often as the client likes. `Unsettled` finds the deliveries in
it by their order, and those whose outcome the client has told are apart: so a disposition costs
what it changes, and not what the session has. (amqp-connector A96, A118)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, Final

from pyjms.wire.amqp.performatives import MAX_UINT, Disposition, State

if TYPE_CHECKING:
    from pyjms.wire.amqp.links import Receiver, Sender

_HALF: Final = 0x80000000
_FEW: Final = 64


def difference(later: int, earlier: int) -> int:
    """Return the difference of two serial numbers of 32 bits."""
    return (later - earlier + _HALF & MAX_UINT) - _HALF


class Delivery:
    """A message on a link.

    `state` and `settled` are the client's. `payload` is empty for a message that was sent.
    """

    def __init__(
        self,
        link: Receiver | Sender,
        number: int,
        tag: bytes,
        message_format: int,
        payload: bytes = b"",
    ) -> None:
        self.link: Receiver | Sender = link
        self.id: int = number
        self.tag: bytes = tag
        self.message_format: int = message_format
        self.payload: bytes = payload
        self.state: State | None = None
        self.settled: bool = False
        self.is_unsettled: bool = True
        """Whether our side has not settled it."""
        self.context: Any = None
        """For the handler of the link."""
        self.size: int = 0
        """Bytes that count in `Engine.kept` until it is settled."""

    def settle(self, state: State | None) -> None:
        """Settle the delivery with this state."""
        if self.is_unsettled:
            self.is_unsettled = False
            self.link.settle(self, state)

    def update(self, state: State) -> None:
        """Tell the client a state without settling the delivery."""
        if self.is_unsettled:
            session = self.link.session
            session.flush()
            role = self.link.role
            session.send(Disposition(role, self.id, self.id, settled=False, state=state))


class Unsettled:
    """The deliveries that a session has sent and that are not settled.

    They have numbers from 0; the low 32 bits of its number are the id of a delivery.
    """

    def __init__(self) -> None:
        self.next_number: int = 0
        self.by_id: dict[int, Delivery] = {}
        self.numbers: list[int] = []
        """The ascending numbers of those without outcome."""
        self._with_outcome: list[int] = []
        """Of those with an outcome; some may be settled meanwhile."""

    @property
    def outcome_count(self) -> int:
        """How many numbers are kept of deliveries with an outcome."""
        return len(self._with_outcome)

    def take(self, first: int, last: int, *, with_outcome: bool) -> list[Delivery]:
        """Remove and return the deliveries in a range of ids, which get an outcome.

        Those that are not settled then are to be given to `set_outcome`.
        """
        begin = self._number(first)
        end = begin + difference(last, first)
        taken = _cut(self.numbers, begin, end)
        if with_outcome and self._with_outcome:
            taken = sorted(taken + _cut(self._with_outcome, begin, end))
        by_id = self.by_id
        found = [by_id.get(number & MAX_UINT) for number in taken]
        return [each for each in found if each is not None]

    def set_outcome(self, deliveries: list[Delivery]) -> None:
        """Record that deliveries have an outcome, but are not settled."""
        _merge(self._with_outcome, [self._number(each.id) for each in deliveries])

    def clear_outcome(self, deliveries: list[Delivery]) -> None:
        """Record that deliveries have no outcome any more."""
        numbers = sorted([self._number(each.id) for each in deliveries])
        self._with_outcome = _without(self._with_outcome, numbers)
        _merge(self.numbers, numbers)

    def drop(self, delivery: Delivery) -> None:
        """Forget a delivery that has an outcome, and is settled."""
        self.by_id.pop(delivery.id, None)
        if len(self._with_outcome) > 2 * len(self.by_id) + _FEW:
            present = self.by_id
            self._with_outcome = [n for n in self._with_outcome if n & MAX_UINT in present]

    def drop_of(self, link: Receiver | Sender, count: int) -> list[Delivery]:
        """Remove and return the deliveries of a link, of which there are so many."""
        dropped: list[Delivery] = []
        # from the latest on: a client cannot have a long list looked through again and again
        for delivery in reversed(self.by_id.values()):
            if len(dropped) == count:
                break
            if delivery.link is link:
                dropped.append(delivery)
        for delivery in dropped:
            del self.by_id[delivery.id]
        numbers = [self._number(each.id) for each in dropped]
        self.numbers = _without(self.numbers, numbers)
        self._with_outcome = _without(self._with_outcome, numbers)
        return dropped

    def _number(self, delivery_id: int) -> int:
        return self.next_number + difference(delivery_id, self.next_number & MAX_UINT)


def _cut(numbers: list[int], begin: int, end: int) -> list[int]:
    """Remove and return the numbers in a range."""
    low = bisect_left(numbers, begin)
    high = bisect_right(numbers, end, low)
    found = numbers[low:high]
    del numbers[low:high]
    return found


def _without(numbers: list[int], others: list[int]) -> list[int]:
    """Return ascending numbers without others; if these are few, they are removed in place."""
    if len(others) > _FEW:
        excluded = set(others)
        return [number for number in numbers if number not in excluded]
    for number in others:
        _cut(numbers, number, number)
    return numbers


def _merge(numbers: list[int], others: list[int]) -> None:
    """Add numbers, which are in order, to ascending ones."""
    if not others:
        return
    if len(others) > _FEW or not numbers or others[0] > numbers[-1]:
        is_sorted = not numbers or others[0] > numbers[-1]
        numbers += others
        if not is_sorted:
            numbers.sort()
    else:
        for number in others:
            insort(numbers, number)
