"""Reading progress that outlives leases and restarts: each queue's held number and epoch.

A progress record is a message in the queue `PyJMS.Ranges.Marks`, replaced by the next record. It is
synced to disk, so everything stored before it is durable, too: after a crash, a number that was
reported to a reader is never assigned to another message. Volatile stores keep no records.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import anyio

from pyjms._logger import get_logger
from pyjms.errors import MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion, checked, wait_for
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.ranges.protocol import ReplyFactory
from pyjms_broker.ranges.queues import PROGRESS_RECORDS
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["Progress", "ProgressRecords"]

logger = get_logger(__name__)

_NUMBERS: Final = range(1 << 63)


class Progress(NamedTuple):
    """The progress record of a queue."""

    held: int = 0
    """The held number: messages below it may be read again, so they must not expire."""
    changes: int = 0
    """The number of purges since the creation of the queue."""


class ProgressRecords:
    """The progress records of a broker, in memory and in their queue."""

    def __init__(self, region: RegionBroker, chain: Broker, replies: ReplyFactory) -> None:
        self._region = region
        self._chain = chain
        self._replies = replies
        self._known: dict[str, Progress] = {}
        self._ids: dict[str, MessageId] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._is_durable = not region.store_capabilities.is_volatile

    def load(self) -> dict[str, Progress]:
        """Read the records stored before this start and return them by queue name."""
        if self._is_durable and PROGRESS_RECORDS in self._region.destinations():
            for reference in self._queue().messages():
                self._read(reference)
        return dict(self._known)

    def of(self, destination: Destination) -> Progress:
        """Return the progress record of a queue; an empty one if there is none."""
        return self._known.get(destination.physical_name, Progress())

    async def set(self, destination: Destination, progress: Progress) -> None:
        """Store a record; it and everything stored before are on disk when this returns.

        Raises:
            JMSException: the store rejects it.
        """
        name = destination.physical_name
        async with self._locks.setdefault(name, anyio.Lock()):
            self._known[name] = progress
            if self._is_durable:
                await wait_for(self._write(name, progress))

    def note(self, destination: Destination, progress: Progress) -> None:
        """Store a record without waiting for the disk."""
        self._known[destination.physical_name] = progress
        if self._is_durable:
            self._write(destination.physical_name, progress)

    def forget(self, destination: Destination) -> None:
        """Remove the record of a deleted queue."""
        name = destination.physical_name
        self._known.pop(name, None)
        self._locks.pop(name, None)
        self._remove(self._ids.pop(name, None))

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, PROGRESS_RECORDS).base
        assert isinstance(queue, Queue)
        queue.pause()  # so that its messages are never dispatched
        return queue

    def _read(self, reference: MessageReference) -> None:
        try:
            name, progress = _decode(reference)
        except Exception:  # no stored data may prevent a start
            logger.exception(
                "%s contains message %s, which is not a progress record: it is ignored",
                PROGRESS_RECORDS,
                reference.message_id,
            )
            return
        self._remove(self._ids.get(name))
        self._known[name], self._ids[name] = progress, reference.message_id

    def _write(self, name: str, progress: Progress) -> Completion:
        self._queue()
        values = {"queue": name, "held": progress.held, "changes": progress.changes}
        message: ActiveMQTextMessage = self._replies.text(values, PROGRESS_RECORDS, None)
        message.persistent = message.response_required = True
        before, self._ids[name] = self._ids.get(name), message.message_id  # type: ignore[assignment]
        stored = checked(
            self._chain.send(ProducerExchange(self._region.context), message), self._chain, "send"
        )
        stored.then(lambda done: self._remove(before) if done.error is None else None)
        return stored

    def _remove(self, message_id: MessageId | None) -> None:
        if message_id is None:
            return
        queue = self._queue()
        reference = queue.get_message(message_id)
        if reference is not None:
            queue.remove_message(self._region.context, reference)


def _decode(reference: MessageReference) -> tuple[str, Progress]:
    """Return a record and its queue's name.

    Raises:
        Exception: of any kind; the message is not a progress record.
    """
    text = decode_text(bytes(reference.message.content or b""))
    fields = json.loads(text or "")
    name, held, changes = fields["queue"], fields["held"], fields["changes"]
    if not (type(held) is type(changes) is int and held in _NUMBERS and changes in _NUMBERS):
        raise MessageFormatException("held and changes must be whole numbers of 63 bits")
    return QueueDestination(name).physical_name, Progress(held, changes)
