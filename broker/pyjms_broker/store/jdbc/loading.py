"""Loading of the stores' in-memory state from the tables, at start, in a thread.

Rows that another broker (ActiveMQ) has written meanwhile are renumbered behind the last ID of
their destination, and counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection

from pyjms.errors import JMSException
from pyjms.jms.destination import Topic, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.frames import decode_message
from pyjms.wire.openwire.commands import MESSAGE_OVERHEAD, XATransactionId, message_size
from pyjms_broker.api.message import StoredMessage, SubscriptionKey
from pyjms_broker.store.api import RecoveredTransaction, StoredSubscription
from pyjms_broker.store.jdbc.database import LAST_BROKER_SEQUENCE_ID, Database
from pyjms_broker.store.jdbc.operations import JOURNAL_MARK, LAST_DESTINATION
from pyjms_broker.store.jdbc.schema import base_of, decode_xid, destination_number, range_end
from pyjms_broker.store.jdbc.stores import JDBCMessageStore, JDBCTopicMessageStore
from pyjms_broker.store.jdbc.transactions import (
    Acknowledgement,
    Addition,
    JDBCTransactionStore,
    Removal,
    Work,
)

logger = get_logger(__name__)

"""Bytes accounted for a message in addition to its body and properties (minimumMessageSize)."""


class PreparedRow(NamedTuple):
    """A message that a prepared transaction added or acknowledged."""

    xid: str
    container: str
    key: SubscriptionKey | None
    id: int
    priority: int
    frame: bytes


class LoadedSubscription(NamedTuple):
    """A durable subscription, and the number of messages that it has not acknowledged."""

    container: str
    subscription: StoredSubscription
    messages: int
    prioritized: bool


class LoadedDestination(NamedTuple):
    """A destination's row."""

    epoch: int
    last_id: int
    messages: int
    size: int


@dataclass(slots=True)
class Contents:
    """The in-memory state of the stores."""

    last_broker_sequence_id: int = 0
    last_destination: int = 0
    last_prepared_id: int = 0
    destinations: dict[str, LoadedDestination] = field(default_factory=dict)
    subscriptions: list[LoadedSubscription] = field(default_factory=list)
    prepared: list[PreparedRow] = field(default_factory=list)


def load(database: Database) -> Contents:
    """Read the contents of the tables. Blocks.

    Raises:
        DatabaseUnavailableException: the database does not respond.
    """
    s = database.statements
    contents = Contents()
    state = make_state(database)
    highest = database.read(s.highest_without_destination)[0][0] or 0
    contents.last_prepared_id = highest
    # ActiveMQ uses the same sequence for messages and rows
    contents.last_broker_sequence_id = max(state[LAST_BROKER_SEQUENCE_ID], highest)
    database.set_state(LAST_BROKER_SEQUENCE_ID, contents.last_broker_sequence_id)
    contents.last_destination = state[LAST_DESTINATION]
    with database.engine.begin() as connection:
        _adopt(connection, database, contents)
    _load_subscriptions(database, contents)
    _load_destinations(database, contents)
    _load_prepared(database, contents)
    return contents


def make_state(database: Database) -> dict[str, int]:
    """Return the numbers of the state table; missing ones are inserted as 0."""
    s = database.statements
    with database.engine.begin() as connection:
        state: dict[str, int] = {row.name: row.value for row in connection.execute(s.state)}
        for name in (LAST_BROKER_SEQUENCE_ID, LAST_DESTINATION, JOURNAL_MARK):
            if name not in state:
                state[name] = 0
                connection.execute(s.insert_state, {"name": name, "value": 0})
    return state


def _adopt(connection: Connection, database: Database, contents: Contents) -> None:
    """Renumber rows that another broker wrote, behind the last ID of their destination."""
    s = database.statements
    known = {row.container: row.last_id for row in connection.execute(s.destination_rows)}
    found = {row.container for row in connection.execute(s.message_counts)}
    found |= {row.container for row in connection.execute(s.subscriptions)}
    for container in sorted(found - known.keys()):
        contents.last_destination += 1
        known[container] = base_of(contents.last_destination)
        row = {"container": container, "epoch": _clock.time_ms(), "last_id": known[container]}
        connection.execute(s.insert_destination, {**row, "msg_count": -1, "msg_size": 0})
    number = {"state": LAST_DESTINATION, "new": contents.last_destination}
    connection.execute(s.set_state, number)
    for container in sorted(known):
        _renumber(connection, database, container, known[container])


def _renumber(connection: Connection, database: Database, container: str, last_id: int) -> None:
    s = database.statements
    base = base_of(destination_number(last_id))
    limits = {"at": container, "begin": base, "end": range_end(base)}
    used = connection.execute(s.highest_in_range, limits).scalar()
    before, last_id = last_id, max(last_id, used or 0)
    rows = list(connection.execute(s.foreign_rows, limits).scalars())
    for mark in list(connection.execute(s.foreign_marks, limits).scalars()):
        acked = bisect_right(rows, mark or 0)
        new = last_id + acked if acked or (mark or 0) > base else base
        moved = {"at": container, "old_mark": mark, "new_mark": new}
        connection.execute(s.renumber_mark, moved)
    if rows or last_id > before:
        ids = [{"row_id": old, "new_id": last_id + n} for n, old in enumerate(rows, 1)]
        if ids:
            connection.execute(s.renumber, ids)
        counted = {"where_container": container, "new_last": last_id + len(rows)}
        connection.execute(s.count_destination, {**counted, "count": 0, "bytes": 0})


def _load_subscriptions(database: Database, contents: Contents) -> None:
    s = database.statements
    no_local = {tuple(row) for row in database.read(s.no_local)}
    rows: dict[tuple[str, str, str], list[Any]] = {}
    for row in database.read(s.subscriptions):
        rows.setdefault((row.container, row.client_id, row.sub_name), []).append(row)
    for (container, client_id, name), found in rows.items():
        key = SubscriptionKey(client_id, name)
        try:
            destination = parse_destination(found[0].sub_dest or container, default=Topic)
        except JMSException as error:
            logger.error("%s: %s cannot be read and is quarantined: %s", container, key, error)
            continue
        subscription = StoredSubscription(
            key,
            destination,
            found[0].selector or None,
            (container, client_id, name) in no_local,
        )
        prioritized = len(found) > 1
        count = database.read(
            s.pending_count[prioritized], at=container, client=client_id, subscription=name
        )[0][0]
        contents.subscriptions.append(
            LoadedSubscription(container, subscription, count, prioritized)
        )


def _load_destinations(database: Database, contents: Contents) -> None:
    """Use the counts of the last batch, unless another broker has changed the rows since."""
    s = database.statements
    counted = {row.container: row.messages for row in database.read(s.message_counts)}
    prioritized = {loaded.container: loaded.prioritized for loaded in contents.subscriptions}
    for row in database.read(s.destination_rows):
        container = row.container
        count, size = counted.get(container, 0), row.msg_size
        if container in prioritized:
            count = database.read(s.live_count[prioritized[container]], at=container)[0][0]
        if row.msg_count != count:
            frames = database.read(s.frame_size, at=container)[0][0] or 0
            size = int(frames) + count * MESSAGE_OVERHEAD if count else 0
            with database.engine.begin() as connection:
                values = {"where_container": container, "count": count, "bytes": size}
                connection.execute(s.set_destination, values)
        contents.destinations[container] = LoadedDestination(row.epoch, row.last_id, count, size)


def _load_prepared(database: Database, contents: Contents) -> None:
    s = database.statements
    for row in database.read(s.prepared_messages):
        contents.prepared.append(
            PreparedRow(row.xid, row.container, None, row.id, row.priority, bytes(row.msg))
        )
    for row in database.read(s.prepared_acknowledgements):
        key = SubscriptionKey(row.client_id, row.sub_name)
        contents.prepared.append(
            PreparedRow(row.xid, row.container, key, row.id, row.priority, bytes(row.msg))
        )


def recover_prepared(
    rows: list[PreparedRow],
    store_of: Callable[[str], JDBCMessageStore],
    transactions: JDBCTransactionStore,
) -> None:
    """Add the transactions to `transactions`; rows that cannot be read are logged and stay.

    `store_of` returns the store of a container.
    """
    found: dict[XATransactionId, RecoveredTransaction] = {}
    works: dict[XATransactionId, list[Work]] = {}
    for row in rows:
        try:
            xid, added = decode_xid(row.xid)
            transaction = found.get(xid) or RecoveredTransaction(xid, [], [])
            work = _recover_row(row, store_of(row.container), transaction, added)
        except Exception as error:  # no stored data may prevent a start
            logger.error(
                "%s: row %d of a prepared transaction cannot be read and is quarantined: %s",
                row.container,
                row.id,
                error,
            )
            continue
        found[xid] = transaction
        works.setdefault(xid, []).append(work)
    for xid, transaction in found.items():
        transactions.recover(transaction, works[xid])


def _recover_row(
    row: PreparedRow, store: JDBCMessageStore, transaction: RecoveredTransaction, added: bool
) -> Work:
    message = decode_message(row.frame)
    size = message_size(message)
    if added:
        message_id = message.message_id
        if message_id is None:
            raise ValueError("the message has no id")
        transaction.added.append((store.destination, message))
        return Addition(store, message, message_id, size, prepared_id=row.id)
    stored = StoredMessage(store.position_at(row.id, row.priority), message)
    if row.key is None:
        work: Work = Removal(store, row.id, size)
    elif isinstance(store, JDBCTopicMessageStore):
        work = Acknowledgement(store, row.key, row.id, row.priority, size, prepared=True)
    else:
        raise ValueError(f"{store.destination} is not a topic")
    transaction.removed.append((store.destination, row.key, stored))
    return work
