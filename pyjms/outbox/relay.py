"""The relay: sends the messages of an outbox, in order, each at least once.

Theory of operation
-------------------

A round reads up to `batch_size` rows, sends them in one JMS transaction, commits it, and then
deletes the rows. A process that dies before the JMS commit has sent nothing; after one that dies
between the two commits, the same rows are sent again with the same `pyjms_outbox_id`, by which the
receiver's inbox detects the duplicates. There is no other state, so there is no moment at which a
message could be lost: a row is deleted only after the broker has confirmed the message.

The relay waits `interval` seconds when there is nothing to send, or another relay is active. When
the broker or the database fails, it logs one line, and retries with increasing delays up to 30 s.

One relay at a time sends the messages of an outbox, so that they keep their order. If the database
has `SKIP LOCKED` (PostgreSQL, MySQL, MariaDB, Oracle), it is the relay that has locked the outbox's
row in `pyjms_outbox_relays`, for the transaction in which it sends and deletes: a relay that dies
loses its connection, and with it the lock. On other databases it is the relay that has written its
name and an expiry time to that row (a lease); another relay can take the lease when it has expired.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import anyio
from anyio.lowlevel import checkpoint
from dependency_injector.wiring import Provide
from sqlalchemy import Connection, Engine, Row, create_engine, delete, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from pyjms.app.lifecycle import on_shutdown, on_startup
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.api import Connection as ApiConnection
from pyjms.jms.api import MessageProducer, Session
from pyjms.jms.destination import parse_destination
from pyjms.jms.message import BytesMessage, TextMessage
from pyjms.outbox.tables import DEFAULT_OUTBOX, OUTBOX, OUTBOX_ID, RELAYS
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger, one_line
from pyjms.template.resources import close_quietly, innermost_factory
from pyjms.template.template import JmsTemplate
from pyjms.template.workers import Worker

logger: Final = get_logger(__name__)

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

        If a lock is used and there are rows, `settle` or `release` must be called next.
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

    def settle(self, rows: Sequence[Row[Any]]) -> None:
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


_LONGEST_WAIT: Final = 30.0
_EXPECTED: Final = (JMSException, SQLAlchemyError, OSError)
"""Failures of brokers and databases; for other errors, the traceback is logged, too."""


class OutboxRelay:
    """Sends the messages that `send` has written. A target of a JmsApplication:

        JmsApplication(handlers, OutboxRelay(engine))

    It starts before the listeners and stops after them. Of several relays of one outbox, in any
    number of processes, one at a time is active. For one event loop; the database is used in a
    separate thread.

    Args:
        database: an Engine, or its URL. If the program uses AsyncSessions, an Engine for the same
            database.
        outbox: the name of the outbox.
        batch_size: the maximum number of messages that are sent in one transaction.
        interval: seconds between two checks of an empty outbox.
        lease: seconds after which another relay replaces one that died, if the database has no
            SKIP LOCKED. A round must not take longer.
        keep: mark rows that were sent (`sent_at`) instead of deleting them.

    Raises:
        ValueError: a number is out of its range.
    """

    def __init__(
        self,
        database: Engine | str,
        *,
        outbox: str = DEFAULT_OUTBOX,
        batch_size: int = 100,
        interval: float = 0.5,
        lease: float = 30.0,
        keep: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"'batch_size' must be 1 or more: {batch_size}")
        _clock.check_seconds("interval", interval)
        _clock.check_seconds("lease", lease)
        engine = create_engine(database) if isinstance(database, str) else database
        self._rows = OutboxRows(
            engine, outbox, str(uuid.uuid4()), batch_size=batch_size, lease=lease, keep=keep
        )
        self._outbox = outbox
        self._interval = interval
        self._task: BackgroundTask | None = None
        self.sent: int = 0
        """The number of messages that it has sent."""

    @on_startup
    async def start(self, template: Annotated[JmsTemplate, Provide["jms_template"]]) -> None:
        """Start to send in the background, until `stop`. Idempotent."""
        if self._task is None:
            self._task = spawn(self.run, template, name=f"pyjms outbox {self._outbox}")
        await checkpoint()

    @on_shutdown
    async def stop(self) -> None:
        """Stop sending; messages that are not confirmed yet stay in the outbox. Idempotent."""
        task, self._task = self._task, None
        await end_tasks(task)

    async def run(self, template: JmsTemplate) -> None:
        """Send until cancelled, with connections from the template's factory."""
        wait = self._interval
        async with self._worker() as worker:
            while True:
                try:
                    await self._send_all(template, worker)
                except Exception as error:
                    wait = min(max(2 * wait, 1.0), _LONGEST_WAIT)
                    logger.warning(
                        "Outbox %s: sending failed, trying again in %g s: %s: %s",
                        self._outbox,
                        wait,
                        type(error).__name__,
                        one_line("; ".join([str(error), *getattr(error, "__notes__", ())])),
                        exc_info=None if isinstance(error, _EXPECTED) else error,
                    )
                    await _clock.sleep(wait)
                else:
                    wait = self._interval

    async def send_waiting(self, template: JmsTemplate) -> int:
        """Send the messages in the outbox now; return their number; 0: another relay is active.

        Raises:
            JMSException: the broker cannot be reached, or does not accept a message.
            SQLAlchemyError: a database operation failed.
        """
        before = self.sent
        async with self._worker() as worker:
            await self._send_all(template, worker, until_empty=True)
        return self.sent - before

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[Worker]:
        """Give the block the thread for the database, and give the outbox up behind it."""
        worker = Worker(f"pyjms-outbox-{self._outbox}")
        try:
            yield worker
        finally:
            with anyio.CancelScope(shield=True):
                await _quietly(worker, self._rows.leave)
                worker.close()
                await worker.join(5.0)

    async def _send_all(
        self, template: JmsTemplate, worker: Worker, *, until_empty: bool = False
    ) -> None:
        """Send until cancelled or failed, with one connection, created for the first row."""
        factory = innermost_factory(template.connection_factory)
        connection: ApiConnection | None = None
        session: Session | None = None
        try:
            while True:
                rows = await worker.run(self._rows.take)
                if rows:
                    if session is None:
                        connection = await factory.create_connection()
                        session = await connection.create_session(transacted=True)
                    await self._send(session, rows)
                    with anyio.CancelScope(shield=True):  # the broker has the messages
                        await worker.run(self._rows.settle, rows)
                        self.sent += len(rows)
                elif until_empty:
                    return
                else:
                    await _clock.sleep(self._interval)
        finally:
            with anyio.CancelScope(shield=True):
                await _quietly(worker, self._rows.release)
            await close_quietly(session, connection)

    async def _send(self, session: Session, rows: Sequence[Row[Any]]) -> None:
        """Send rows in one transaction, and wait for the broker's confirmation."""
        producers: dict[str, MessageProducer] = {}
        try:
            for row in rows:
                try:
                    await self._send_row(session, row, producers)
                except Exception as error:
                    error.add_note(f"row {row.id} of {OUTBOX.name}, to {row.destination}")
                    raise
            await session.commit()
        finally:
            await close_quietly(*producers.values())

    async def _send_row(
        self, session: Session, row: Row[Any], producers: dict[str, MessageProducer]
    ) -> None:
        left = _time_left(row)
        if left is not None and left <= 0:
            logger.debug("Outbox %s: %s has expired", self._outbox, row.message_id)
            return
        producer = producers.get(row.destination)
        if producer is None:
            destination = parse_destination(row.destination)
            producer = producers[row.destination] = await session.create_producer(destination)
        await producer.send(
            _message(row),
            delivery_mode=DeliveryMode.PERSISTENT,
            priority=row.headers.get("priority", 4),
            time_to_live=left or 0,
        )


def _message(row: Row[Any]) -> TextMessage | BytesMessage:
    message = TextMessage(row.body.decode()) if row.kind == "text" else BytesMessage(row.body)
    for name, value in row.properties.items():
        message.properties[name] = value
    message.properties[OUTBOX_ID] = row.message_id
    headers = row.headers
    message.correlation_id = headers.get("correlation_id")
    message.type = headers.get("type")
    message.group_id = headers.get("group_id")
    reply_to = headers.get("reply_to")
    message.reply_to = None if reply_to is None else parse_destination(reply_to)
    return message


def _time_left(row: Row[Any]) -> float | None:
    ends: float | None = row.headers.get("expires_at")
    return None if ends is None else ends - _clock.time_ms() / 1000


async def _quietly(worker: Worker, function: Any) -> None:
    try:
        await worker.run(function)
    except SQLAlchemyError as error:
        logger.debug("The outbox's database failed during shutdown: %s", error)
