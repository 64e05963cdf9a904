"""The relay's access to the tables: whose turn it is, rows to send, and rows that were sent.

One relay at a time sends the messages of an outbox, so that they keep their order. Where the
database has `SKIP LOCKED` (PostgreSQL, MySQL, MariaDB, Oracle), that is the one that locks the
outbox's row in `pyjms_outbox_relays`, for the transaction in which it sends and deletes: a relay
that dies loses its connection, and the lock with it. Elsewhere it is the one that has written its
name there, until the time that it has written with it: the others go on when that has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, delete, select, update
from sqlalchemy.exc import IntegrityError

from pyjms import _clock
from pyjms.outbox.tables import OUTBOX, RELAYS

__all__ = ["OutboxRows"]

_SKIPPING: Final = frozenset({"postgresql", "mysql", "mariadb", "oracle"})


@dataclass(eq=False, repr=False)
class OutboxRows:
    """The rows of one outbox, for one relay. Blocks; for one thread.

    Args:
        engine: the database.
        outbox: the outbox's name.
        relay: the relay's name, which no other has.
        batch_size: how many rows are taken at a time.
        lease: seconds that a lease lasts, where there are leases.
        keep: whether rows that were sent are kept.
    """

    engine: Engine
    outbox: str
    relay: str
    batch_size: int = field(kw_only=True)
    lease: float = field(kw_only=True)
    keep: bool = field(kw_only=True)
    _connection: Connection | None = field(default=None, init=False)

    @property
    def locks(self) -> bool:
        """Whether the turn is a lock, not a lease."""
        return self.engine.dialect.name in _SKIPPING

    def take(self) -> Sequence[Row[Any]] | None:
        """Return the next rows, in order; None: another relay has its turn.

        With a lock, `done` or `give_up` has to follow, if there are rows.
        """
        self.give_up()
        connection = self.engine.connect()
        try:
            has_turn = self._lock(connection) if self.locks else self._renew(connection)
            rows = connection.execute(self._next_rows()).all() if has_turn else None
        except BaseException:
            connection.close()
            raise
        if rows and self.locks:
            self._connection = connection
        else:
            connection.rollback()
            connection.close()
        return rows

    def done(self, rows: Sequence[Row[Any]]) -> None:
        """Delete or mark rows that were sent, and end the turn of a lock."""
        connection, self._connection = self._connection, None
        connection = connection or self.engine.connect()
        with connection:
            ids = OUTBOX.c.id.in_([row.id for row in rows])
            if self.keep:
                connection.execute(
                    update(OUTBOX).where(ids).values(sent_at=_clock.time_ms() / 1000)
                )
            else:
                connection.execute(delete(OUTBOX).where(ids))
            connection.commit()

    def give_up(self) -> None:
        """End the turn of a lock; the rows stay."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def leave(self) -> None:
        """Let another relay go on at once: this one ends."""
        self.give_up()
        if not self.locks:
            with self.engine.begin() as connection:
                connection.execute(
                    delete(RELAYS).where(
                        RELAYS.c.outbox == self.outbox, RELAYS.c.relay == self.relay
                    )
                )

    def _next_rows(self) -> Any:
        waiting = select(OUTBOX).where(OUTBOX.c.outbox == self.outbox, OUTBOX.c.sent_at.is_(None))
        return waiting.order_by(OUTBOX.c.id).limit(self.batch_size)

    def _lock(self, connection: Connection) -> bool:
        mine = select(RELAYS.c.outbox).where(RELAYS.c.outbox == self.outbox)
        if connection.execute(mine.with_for_update(skip_locked=True)).first() is not None:
            return True
        if connection.execute(mine).first() is None:
            self._add(connection, 0.0)
            return connection.execute(mine.with_for_update(skip_locked=True)).first() is not None
        return False

    def _renew(self, connection: Connection) -> bool:
        now = _clock.time_ms() / 1000
        is_mine = (RELAYS.c.relay == self.relay) | (RELAYS.c.ends_at <= now)
        change = update(RELAYS).where(RELAYS.c.outbox == self.outbox, is_mine)
        values = {"relay": self.relay, "ends_at": now + self.lease}
        has_turn = connection.execute(change.values(values)).rowcount == 1
        connection.commit()
        return has_turn or self._add(connection, now + self.lease)

    def _add(self, connection: Connection, ends_at: float) -> bool:
        """Add the outbox's row; return False if there is one."""
        row = {"outbox": self.outbox, "relay": self.relay, "ends_at": ends_at}
        try:
            connection.execute(RELAYS.insert().values(row))
            connection.commit()
        except IntegrityError:
            connection.rollback()
            return False
        return True
