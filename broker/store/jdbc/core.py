"""What the stores of one adapter share: the way to the database and back, and numbers.

Ids are given out on the loop, in the order in which work goes to the database: so they are
known at once, and rise with the commits.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from broker.api.completion import Completion
from broker.store.jdbc.audit import MessageAudit
from broker.store.jdbc.database import Database
from broker.store.jdbc.numbering import base_of
from broker.store.jdbc.operations import UNSETTLING, Operation, Unit
from broker.store.jdbc.settings import JDBCSettings
from broker.store.jdbc.statements import Statements
from pyjms.wire.openwire.commands import MessageId
from pyjms.wire.openwire.primitives import decode_map

__all__ = ["Core", "UnitWriter", "duplicate_id", "split_id"]

_DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_DUPLICATE_ID_BYTES: Final = _DUPLICATE_ID.encode()


class UnitWriter(Protocol):
    """Where units go: to the database, or to a journal in front of it."""

    def submit(self, unit: Unit) -> Completion:
        """Have a unit done behind all before it; the answer says that it is safe."""

    def settle(self) -> None:
        """Bring all that waits to the database now.

        Raises:
            JMSException: the database does not work.
        """

    def check(self) -> None:
        """Raise if nothing can be read.

        Raises:
            JMSException: the database does not work.
        """


class Core:
    """Belongs to the loop."""

    def __init__(self, database: Database, settings: JDBCSettings) -> None:
        self.database = database
        self.settings = settings
        self.writer: UnitWriter
        self.last_broker_sequence_id = 0
        self.last_destination = 0
        self.last_prepared_id = 0
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
        """Return the ID before the first of a new destination."""
        self.last_destination += 1
        return base_of(self.last_destination)

    def next_prepared_id(self) -> int:
        """Return an ID for a row that has not arrived yet."""
        self.last_prepared_id += 1
        return self.last_prepared_id

    def submit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Exception | None], None],
        size: int = 0,
    ) -> Completion:
        """Have operations done together.

        Until those are done after which a container's tables look other than the overlays
        know, its readers settle first.
        """
        unsettled = [op.container for op in operations if isinstance(op, UNSETTLING)]
        if not unsettled:
            return self.writer.submit(Unit(operations, done, size))
        self._unsettled.update(unsettled)

        def wait_idle(error: Exception | None) -> None:
            self._unsettled.subtract(unsettled)
            self._unsettled = +self._unsettled
            done(error)

        return self.writer.submit(Unit(operations, wait_idle, size))

    def settle(self, container: str) -> None:
        """Make sure that the container's tables look as they should.

        Raises:
            JMSException: the database does not work.
        """
        if container in self._unsettled:
            self.writer.settle()

    def read(self, statement: Any, **parameters: object) -> Sequence[Any]:
        """Return the rows of a query.

        Raises:
            JMSException: the database does not work.
        """
        self.writer.check()
        return self.database.read(statement, **parameters)

    def note(self, producer: str, sequence: int, broker_sequence: int) -> None:
        """Remember the numbers of a message that was stored."""
        self.last_broker_sequence_id = max(self.last_broker_sequence_id, broker_sequence)
        known = self._sequences.pop(producer, -1)
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)

    def last_sequence(self, producer: str) -> int:
        """Return the highest sequence number of a producer that is known or in the tables. (T27)"""
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
    """Return the property by which a sender wants repeated messages dropped."""
    if marshalled_properties is None or _DUPLICATE_ID_BYTES not in marshalled_properties:
        return None
    value = dict(decode_map(marshalled_properties)).get(_DUPLICATE_ID)
    return None if value is None else str(value)
