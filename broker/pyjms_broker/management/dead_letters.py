"""Groups of dead letters with the same reason, and the retry of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.failure_reason import FAILURE_CAUSE, reason_of
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.messages import move, original_destination
from pyjms_broker.region.queue import Queue

MOST_GROUPED: Final = 20_000
"""The maximum number of messages that are read for the groups of a queue."""
_MOST_GROUPS: Final = 500
_QUOTED: Final = 300


def reason_of_reference(reference: MessageReference) -> str:
    """Return the reason of a message of a queue; see `reason_of`."""
    original = original_destination(reference)
    try:
        properties = reference.properties
    except JMSException:
        return "properties that cannot be read"
    return reason_of(properties, None if original is None else original.qualified_name)


class Group(NamedTuple):
    """Dead letters of a queue with the same reason."""

    reason: str
    size: int
    oldest: int
    """When the first of them arrived, in ms since 1970."""
    example: str
    """The id of one of them."""
    text: str
    """The beginning of its whole cause."""


async def groups_of(queue: Queue) -> list[Group]:
    """Return the groups of a queue's first `MOST_GROUPED` messages, largest first. Cancellable."""
    found: dict[str, Group] = {}
    slices = Slices()
    for index, reference in enumerate(queue.messages()):
        if index >= MOST_GROUPED:
            break
        reason = reason_of_reference(reference)
        known = found.get(reason)
        if known is not None:
            found[reason] = known._replace(size=known.size + 1)
        elif len(found) < _MOST_GROUPS:
            message = reference.message
            text = str(message.properties.get(FAILURE_CAUSE) or "")[:_QUOTED]
            example = str(reference.message_id)
            found[reason] = Group(reason, 1, message.broker_in_time, example, text)
        await slices.after_item()
    return sorted(found.values(), key=lambda each: -each.size)


class Retry:
    """A retry of dead letters: each that is wanted is sent to its original destination.

    Those that arrive meanwhile, because they failed again, stay.

    Args:
        tree: the context of the views.
        queue: the dead-letter queue.
        is_wanted: returns whether a message is retried.
        rate: the maximum number of messages a second; 0: no maximum.
    """

    def __init__(
        self,
        tree: ManagementContext,
        queue: Queue,
        is_wanted: Callable[[MessageReference], bool],
        rate: float = 0.0,
    ) -> None:
        self._tree = tree
        self.queue = queue
        self._is_wanted = is_wanted
        self.rate = rate
        self.count = 0
        """The number of messages that were sent so far."""

    async def run(self) -> int:
        """Retry, and return the number of messages. Cancellable between two messages."""
        began = _clock.time_ms()
        slices = Slices()
        for reference in self.queue.messages():
            await slices.after_item()
            original = original_destination(reference)
            if original is None or original == self.queue.destination:
                continue
            if reference.message.broker_in_time > began or not self._is_wanted(reference):
                continue
            stored = move(self._tree, self.queue, reference, original)
            if stored is None:
                continue
            await wait_for(stored)
            self.count += 1
            if self.rate > 0:
                await _clock.sleep(1 / self.rate)
        return self.count


def of_reason(reason: str) -> Callable[[MessageReference], bool]:
    """Return the function that says whether a dead letter belongs to the group of a reason."""
    return lambda reference: reason_of_reference(reference) == reason
