"""What outlives leases and the broker: how far each queue was promised, and its epoch.

A mark is a message in the queue `PyJMS.Ranges.Marks`, replaced by the next one. It is synced, so
everything that was stored before it is safe as well: a number that a reader was told is not given
to another message after a crash. Stores that lose everything anyway have no marks.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, NamedTuple

import anyio

from broker.api.broker import Broker
from broker.api.completion import Completion, wait_for
from broker.api.exchange import ProducerExchange
from broker.api.message import MessageReference
from broker.ranges.protocol import Answers
from broker.region.queue.queue import Queue
from broker.region.region_broker import RegionBroker
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId
from pyjms.wire.openwire.primitives import decode_text

__all__ = ["MARKS", "Mark", "Marks"]

logger = logging.getLogger(__name__)

MARKS: Final = QueueDestination("PyJMS.Ranges.Marks")


class Mark(NamedTuple):
    """What is remembered of a queue."""

    held: int = 0
    """Messages with lower numbers may be read again, so they do not expire."""
    changes: int = 0
    """How often it was purged since it was made."""


class Marks:
    """The marks of a broker; in memory, and in their queue."""

    def __init__(self, region: RegionBroker, chain: Broker, answers: Answers) -> None:
        self._region = region
        self._chain = chain
        self._answers = answers
        self._known: dict[str, Mark] = {}
        self._ids: dict[str, MessageId] = {}
        self._turns: dict[str, anyio.Lock] = {}
        self._lasts = not region.store_capabilities.is_volatile

    def load(self) -> dict[str, Mark]:
        """Read what is there from before the start."""
        if self._lasts and MARKS in self._region.destinations():
            for reference in self._queue().messages():
                self._read(reference)
        return dict(self._known)

    def of(self, destination: Destination) -> Mark:
        """Return what is remembered of a queue."""
        return self._known.get(destination.physical_name, Mark())

    async def set(self, destination: Destination, mark: Mark) -> None:
        """Remember a mark; it is on the disk, and all before it, when this returns.

        Raises:
            JMSException: the store does not take it.
        """
        name = destination.physical_name
        async with self._turns.setdefault(name, anyio.Lock()):
            self._known[name] = mark
            if self._lasts:
                await wait_for(self._write(name, mark))

    def note(self, destination: Destination, mark: Mark) -> None:
        """Remember a mark; it is written, but nobody waits for it."""
        self._known[destination.physical_name] = mark
        if self._lasts:
            self._write(destination.physical_name, mark)

    def forget(self, destination: Destination) -> None:
        """Forget a queue that is gone."""
        name = destination.physical_name
        self._known.pop(name, None)
        self._turns.pop(name, None)
        self._remove(self._ids.pop(name, None))

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, MARKS).base
        assert isinstance(queue, Queue)
        queue.pause()  # nobody consumes what is in it
        return queue

    def _read(self, reference: MessageReference) -> None:
        try:
            text = decode_text(bytes(reference.message.content or b""))
            fields: dict[str, Any] = json.loads(text or "")
            name = str(fields["queue"])
            mark = Mark(int(fields["held"]), int(fields["changes"]))
        except (JMSException, ValueError, KeyError, TypeError):
            logger.warning("%s has message %s, which is no mark", MARKS, reference.message_id)
            return
        self._remove(self._ids.get(name))
        self._known[name], self._ids[name] = mark, reference.message_id

    def _write(self, name: str, mark: Mark) -> Completion | None:
        self._queue()
        values = {"queue": name, "held": mark.held, "changes": mark.changes}
        message: ActiveMQTextMessage = self._answers.text(values, MARKS, None)
        message.persistent = message.response_required = True
        before, self._ids[name] = self._ids.get(name), message.message_id  # type: ignore[assignment]
        stored = self._chain.send(ProducerExchange(self._region.context), message)
        if stored is None:
            self._remove(before)
        else:
            stored.then(lambda done: self._remove(before) if done.error is None else None)
        return stored

    def _remove(self, message_id: MessageId | None) -> None:
        if message_id is None:
            return
        queue = self._queue()
        reference = queue.get_message(message_id)
        if reference is not None:
            queue.remove_message(self._region.context, reference)
