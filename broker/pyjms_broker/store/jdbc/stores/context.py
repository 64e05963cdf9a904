"""State that the stores of one adapter share: the database, its writer, and the counters.

Ids are assigned on the loop, in the order in which units go to the database. A message therefore
has its position at once, and ids increase in commit order.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pyjms.jms.destination import Destination
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import decode_message
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.damage import Quarantine, is_damage
from pyjms_broker.store.jdbc.execution.database import Database
from pyjms_broker.store.jdbc.execution.operations import UNSETTLING, Operation, Unit
from pyjms_broker.store.jdbc.schema.numbering import base_of
from pyjms_broker.store.jdbc.schema.statements import Statements
from pyjms_broker.store.jdbc.settings import JDBCSettings
from pyjms_broker.store.jdbc.stores.audit import MessageAudit

__all__ = ["StoreContext", "StoredDestination", "UnitWriter", "duplicate_id", "split_id"]

_DUPLICATE_ID_BYTES: Final = DUPLICATE_ID_PROPERTY.encode()


class UnitWriter(Protocol):
    """Writes units: to the database, or to a journal in front of it."""

    def submit(self, unit: Unit) -> Completion:
        """Queue a unit after all earlier ones; the completion is done when it is durable."""

    def settle(self) -> None:
        """Write all queued units to the database now, blocking the loop.

        Raises:
            JMSException: the database has failed.
        """

    def check(self) -> None:
        """Raise if the tables cannot be read.

        Raises:
            JMSException: the database has failed.
        """


class StoredDestination(NamedTuple):
    """The arguments for the creation of a message store."""

    destination: Destination
    prioritized: bool
    base: int
    """The ID before that of the destination's first message."""
    epoch: int


class StoreContext:
    """The state that the stores of one adapter share. Used on the loop only."""

    def __init__(self, database: Database, settings: JDBCSettings) -> None:
        self.database = database
        self.settings = settings
        self.writer: UnitWriter
        self.last_broker_sequence_id = 0
        self.last_destination = 0
        self.last_prepared_id = 0
        self.quarantine = Quarantine()
        self.audit = (
            MessageAudit(settings.max_audit_depth, settings.max_producers_to_audit)
            if settings.enable_audit
            else None
        )
        self._unsettled: Counter[str] = Counter()
        self._sequences: OrderedDict[str, int] = OrderedDict()

    @property
    def statements(self) -> Statements:
        return self.database.statements

    def next_base(self) -> int:
        """Return the ID before the first one of a new destination."""
        self.last_destination += 1
        return base_of(self.last_destination)

    def next_prepared_id(self) -> int:
        """Return an ID for a row whose transaction is not committed yet."""
        self.last_prepared_id += 1
        return self.last_prepared_id

    def submit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Exception | None], None],
        size: int = 0,
    ) -> Completion:
        """Queue operations that are executed together.

        Some operations change a container's tables in ways that its overlay does not reflect.
        While one is queued, readers of the container first write out the queue (`settle`).
        """
        unsettled = [op.container for op in operations if isinstance(op, UNSETTLING)]
        if not unsettled:
            return self.writer.submit(Unit(operations, done, size))
        self._unsettled.update(unsettled)

        def completed(error: Exception | None) -> None:
            self._unsettled.subtract(unsettled)
            self._unsettled = +self._unsettled
            done(error)

        return self.writer.submit(Unit(operations, completed, size))

    def settle(self, container: str) -> None:
        """Write out queued operations that the container's overlay cannot represent.

        Raises:
            JMSException: the database has failed.
        """
        if container in self._unsettled:
            self.writer.settle()

    def read(self, statement: Any, **parameters: object) -> Sequence[Any]:
        """Return the rows of a query.

        Raises:
            JMSException: the database has failed.
        """
        self.writer.check()
        return self.database.read(statement, **parameters)

    def decode(self, container: str, number: int, frame: bytes) -> ActiveMQMessage | None:
        """Return the message of a row; None: it is damaged, and quarantined from now on."""
        try:
            message = decode_message(bytes(frame))
            if message.message_id is None:
                raise KahaDBFormatError("The message has no message id")
            return message
        except Exception as error:
            if not is_damage(error):
                raise
            rows = self.read(self.statements.message_ids, ids=[number])
            message_id = ":".join(map(str, rows[0])) if rows else "?"
            self.quarantine.add(container, message_id, f"row {number}", error)
            return None

    def note(self, producer: str, sequence: int, broker_sequence: int) -> None:
        """Record the sequence numbers of a stored message."""
        self.last_broker_sequence_id = max(self.last_broker_sequence_id, broker_sequence)
        known = self._sequences.pop(producer, -1)
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)

    def last_sequence(self, producer: str) -> int:
        """Return the highest sequence number of a producer in memory or in the tables.

        (activemq-broker T27)
        """
        known = self._sequences.get(producer)
        if known is not None:
            return known
        kept = self.read(self.statements.producer_sequence, of_producer=producer)
        if kept:
            return int(kept[0][0])
        stored = self.read(self.statements.last_sequence, producer=producer)[0][0]
        return -1 if stored is None else int(stored)


def split_id(message_id: MessageId) -> tuple[str, int]:
    """Return MSGID_PROD and MSGID_SEQ of a message id."""
    if message_id.producer_id is None:
        return str(message_id), message_id.producer_sequence_id
    return str(message_id.producer_id), message_id.producer_sequence_id


def duplicate_id(marshalled_properties: bytes | None) -> str | None:
    """Return the duplicate id (`_AMQ_DUPL_ID`) of a message; None: it has none."""
    if marshalled_properties is None or _DUPLICATE_ID_BYTES not in marshalled_properties:
        return None
    value = dict(decode_map(marshalled_properties, MAX_PROPERTY_VALUES)).get(DUPLICATE_ID_PROPERTY)
    return None if value is None else str(value)
