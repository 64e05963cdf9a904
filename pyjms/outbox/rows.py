"""The relay's access to the tables: the lock or lease, rows to send, and rows that were sent.

One relay at a time sends the messages of an outbox, so that they keep their order. If the database
has `SKIP LOCKED` (PostgreSQL, MySQL, MariaDB, Oracle), it is the relay that has locked the outbox's
row in `pyjms_outbox_relays`, for the transaction in which it sends and deletes: a relay that dies
loses its connection, and with it the lock. On other databases it is the relay that has written its
name and an expiry time to that row (a lease); another relay can take the lease when it has expired.
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
        relay: the relay's unique name.
        batch_size: the maximum number of rows in a batch.
        lease: the duration of a lease in seconds, for databases that need leases.
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
        """Whether a lock is used, not a lease."""
        return self.engine.dialect.name in _SKIPPING

    def take(self) -> Sequence[Row[Any]] | None:
        """Return the next rows, in order; None: another relay has the lock or lease.

        If a lock is used and there are rows, `done` or `release` must be called next.
        """
        self.release()
        connection = self.engine.connect()
        try:
            acquired = self._lock(connection) if self.locks else self._renew(connection)
            rows = connection.execute(self._next_rows()).all() if acquired else None
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
        """Delete or mark rows that were sent, and release the lock."""
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

    def release(self) -> None:
        """Release the lock; the rows stay."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def leave(self) -> None:
        """Release the lock or lease, so that another relay can start at once."""
        self.release()
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
        acquired = connection.execute(change.values(values)).rowcount == 1
        connection.commit()
        return acquired or self._add(connection, now + self.lease)

    def _add(self, connection: Connection, ends_at: float) -> bool:
        """Insert the outbox's row; return False if it exists already."""
        row = {"outbox": self.outbox, "relay": self.relay, "ends_at": ends_at}
        try:
            connection.execute(RELAYS.insert().values(row))
            connection.commit()
        except IntegrityError:
            connection.rollback()
            return False
        return True
