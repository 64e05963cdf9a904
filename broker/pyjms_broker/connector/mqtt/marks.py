"""Records of kept sessions: packet ids of QoS 2, subscriptions and wills of 5.0, and their expiry.

A record is a message in the internal queue `PyJMS.Mqtt.Marks`. Only sessions that are kept, on a
broker whose store is persistent, have records:

    record       written                              until
    received     in the transaction of the message    a record `done`
    done         after PUBREL, before PUBCOMP         it is stored
    sent         before the message is sent           PUBREC
    released     after PUBREC, before PUBREL          PUBCOMP
    filter       for 5.0, before SUBACK               UNSUBSCRIBE
    session      after CONNECT, and at the end        the session has expired
    will         when the client was lost             it is sent, or the session resumed

A removal may be lost in a crash, a record may not. So of several records of one thing the last
counts, and the earlier ones are removed before it is.

Without the first, a client that repeats a message across a crash would deliver it twice; without
those of sent messages the broker would send the client a message that it has already, under another
id. (mqtt-connector M62, M86, M141, M144)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyjms.jms.destination import Queue as QueueDestination
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import Completion, completion_of
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.transaction import Transaction

if TYPE_CHECKING:
    from pyjms_broker.region.queue import Queue
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

MARKS: Final = QueueDestination("PyJMS.Mqtt.Marks")
RECEIVED: Final = "received"
DONE: Final = "done"
SENT: Final = "sent"
RELEASED: Final = "released"
FILTER: Final = "filter"
SESSION: Final = "session"
WILL: Final = "will"


class Mark(NamedTuple):
    """The content of a record."""

    client_id: str
    kind: str
    packet_id: int
    """0 for `FILTER`, `SESSION` and `WILL`."""
    key: str = ""
    """For `SENT` and `RELEASED`: the subscription; for `FILTER`: its text."""
    message: str = ""
    """For these two: the message id; for `FILTER`, `SESSION` and `WILL`: their values."""

    @property
    def place(self) -> Place:
        """What it is about: of several records of one place, the last counts."""
        text = self.key if self.kind == FILTER else ""
        return _KINDS.get(self.kind, self.kind), self.packet_id, text


Place: TypeAlias = tuple[str, int, str]
_KINDS: Final = {DONE: RECEIVED, RELEASED: SENT}


class Stored(NamedTuple):
    """A record that was written."""

    message_id: MessageId
    stored: Completion
    """Done when the store has it, or the transaction; not when that is committed."""


class Marks:
    """The records of one broker."""

    def __init__(self, region: RegionBroker) -> None:
        self._region = region
        self._producer_id = ProducerId(IdGenerator().generate())
        self._numbers = itertools.count(1)

    def next_id(self) -> MessageId:
        """Return the id of a message that the broker sends by itself."""
        return MessageId(None, self._producer_id, next(self._numbers))

    def read(self) -> Iterator[tuple[Mark, MessageId]]:
        """Yield the records that a former broker has left."""
        if MARKS not in self._region.destinations():
            return
        for reference in list(self._queue().messages()):
            try:
                mark = Mark(**reference.properties)  # type: ignore[arg-type]
            except Exception:  # no stored data may prevent a start
                logger.exception("%s of %s is no record", reference.message_id, MARKS)
            else:
                yield mark, reference.message_id

    def write(self, mark: Mark, transaction: Transaction | None = None) -> Stored:
        """Write a record, in a transaction if one is given."""
        message_id = self.next_id()
        message = ActiveMQMessage(destination=MARKS, message_id=message_id, persistent=True)
        message.producer_id = self._producer_id
        message.response_required = True
        message.marshalled_properties = encode_map(mark._asdict())
        exchange = ProducerExchange(self._region.context, transaction=transaction)
        queue = self._queue()
        return Stored(message_id, completion_of(queue.send(exchange, message), queue, "send"))

    def remove(self, mark: Stored) -> None:
        """Remove a record, once it is stored."""
        mark.stored.then(lambda _: self._remove(mark.message_id))

    def _remove(self, message_id: MessageId) -> None:
        queue = self._queue()
        reference = queue.get_message(message_id)
        if reference is not None:
            queue.remove_message(self._region.context, reference)

    def _queue(self) -> Queue:
        from pyjms_broker.region.queue import Queue  # noqa: PLC0415 - it imports the connectors

        queue = self._region.region_destination(MARKS)
        assert isinstance(queue, Queue)
        queue.pause()  # so that its messages are never dispatched
        return queue
