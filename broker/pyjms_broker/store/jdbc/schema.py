"""The database schema: the tables, the statements on them, row IDs, and the column XID.

Tables. Three are ActiveMQ's; the others hold data for which those have no columns. Names are never
quoted, so that a database that folds their case finds ActiveMQ's tables. (activemq-persistence J2,
J3, J4)

Row IDs. An ID is composed of the number of a destination and a serial number within it. IDs are
therefore unique, increase within a destination in commit order, and contain the arrival number. The
range of destination 0 is used for the rows of prepared transactions, which have no arrival number
yet, and for the rows of a database created by ActiveMQ until they are renumbered.

The column XID has ActiveMQ's text for a transaction and the role of the row in it: the Base64
encoding of `+` for an added message or `-` for an acknowledged one, nine zero bytes, the format id,
the length of the global id, the global id, the branch qualifier. (activemq-persistence J8)

Statements. They are built once, so that SQLAlchemy caches their compiled form. Parameters of
conditions never have the names of columns, because an update would set the columns. A message is
*pending* for a subscription until the subscription has acknowledged it. It is *live* in its topic
while it is pending for any subscription.
"""

from __future__ import annotations

import binascii
import functools
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.store.jdbc.settings import Statements as TableNames

LOCK_ROW: Final = 1
SUBSCRIPTION_PRIORITY: Final = 5
"""PRIORITY of a durable subscription's only row if priorities are ignored.

(activemq-persistence J3)
"""

_MYSQL: Final = ("mysql", "mariadb")
# MySQL compares case-insensitively by default, and its BLOBs are limited to 64 KiB.
_NAME: Final = sa.String(250).with_variant(mysql.VARCHAR(250, collation="utf8mb4_bin"), *_MYSQL)
_BLOB: Final = sa.LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)
# SQLite keeps rows in key order only if the key is an INTEGER.
_ID: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Tables:
    """The tables with one name prefix. Columns are `c.id`, `c.container` and so on."""

    def __init__(self, names: TableNames) -> None:
        self.metadata = sa.MetaData()
        self._prefix = names.table_prefix
        self.messages = self._messages(names.message_table_name)
        self.acks = self._acks(names.durable_sub_acks_table_name)
        self.lock = self._table(
            names.lock_table_name,
            _column("ID", _ID, primary_key=True, autoincrement=False),
            _column("TIME", sa.BigInteger()),
            _column("BROKER_NAME", _NAME),
        )
        self.state = self._number_table("PYJMS_STATE", "NAME", "VALUE")
        self.destinations = self._number_table(
            "PYJMS_DESTINATIONS", "CONTAINER", "EPOCH", "LAST_ID", "MSG_COUNT", "MSG_SIZE"
        )
        self.acked = self._acked_table()
        self.no_local = self._table(
            "PYJMS_NO_LOCAL", *_subscription_columns(), _key("CONTAINER", "CLIENT_ID", "SUB_NAME")
        )
        self.owners = self._table(
            "PYJMS_OWNERS",
            *_subscription_columns(),
            _column("OWNER", sa.Text(), nullable=False),
            _key("CONTAINER", "CLIENT_ID", "SUB_NAME"),
        )
        self.producers = self._number_table(
            "PYJMS_PRODUCERS", "MSGID_PROD", "MSGID_SEQ", "LAST_USED"
        )
        self.duplicates = self._table(
            "PYJMS_DUPLICATES",
            _column("CONTAINER", _NAME, nullable=False),
            _number("ID"),
            _column("DUPLICATE_ID", sa.Text(), nullable=False),
            _key("CONTAINER", "ID"),
        )

    def _number_table(self, table: str, key: str, *numbers: str) -> sa.Table:
        """Return a table of numbers by a name."""
        return self._table(table, _column(key, _NAME, primary_key=True), *map(_number, numbers))

    def _messages(self, name: str) -> sa.Table:
        table = self._table(
            name,
            _column("ID", _ID, primary_key=True, autoincrement=False),
            _column("CONTAINER", _NAME),
            _column("MSGID_PROD", _NAME),
            _column("MSGID_SEQ", sa.BigInteger()),
            _column("EXPIRATION", sa.BigInteger()),
            _column("MSG", _BLOB),
            _column("PRIORITY", sa.BigInteger()),
            _column("XID", _NAME),
        )
        c = table.c
        for suffix, columns in (
            ("MIDX", (c.msgid_prod, c.msgid_seq)),
            ("CIDX", (c.container, c.id)),  # ActiveMQ's lacks ID, so pages would be sorted
            ("EIDX", (c.expiration,)),
            ("PIDX", (c.priority,)),
            ("XIDX", (c.xid,)),
            ("IIDX", (c.id, c.xid, c.container)),
            ("LIDX", (c.container, c.priority, c.id)),  # pages of one priority
        ):
            sa.Index(quoted_name(f"{table.name}_{suffix}", quote=False), *columns)
        return table

    def _acks(self, name: str) -> sa.Table:
        """Messages up to LAST_ACKED_ID are acknowledged, of all priorities or of the row's."""
        return self._table(
            name,
            _column("CONTAINER", _NAME, nullable=False),
            _column("SUB_DEST", _NAME),
            _column("CLIENT_ID", _NAME, nullable=False),
            _column("SUB_NAME", _NAME, nullable=False),
            _column("SELECTOR", _NAME),
            _column("LAST_ACKED_ID", sa.BigInteger()),
            _column("PRIORITY", sa.BigInteger(), nullable=False, server_default="5"),
            _column("XID", _NAME),
            _key("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY"),
        )

    def _acked_table(self) -> sa.Table:
        """Acknowledgements ahead of LAST_ACKED_ID, or in a prepared transaction (XID)."""
        return self._table(
            "PYJMS_ACKED",
            *_subscription_columns(),
            _column("ID", sa.BigInteger(), nullable=False),
            _column("PRIORITY", sa.SmallInteger(), nullable=False),
            _column("XID", _NAME),
            _key("CONTAINER", "CLIENT_ID", "SUB_NAME", "ID"),
        )

    def _table(self, name: str, *parts: sa.Column[Any] | sa.PrimaryKeyConstraint) -> sa.Table:
        full = quoted_name(self._prefix + name, quote=False)
        # otherwise the engine on MySQL depends on the server's default
        return sa.Table(full, self.metadata, *parts, mysql_engine="InnoDB", mariadb_engine="InnoDB")


def _column(
    name: str,
    kind: TypeEngine[Any],
    *,
    primary_key: bool = False,
    nullable: bool | None = None,
    autoincrement: bool = False,
    server_default: str | None = None,
) -> sa.Column[Any]:
    return sa.Column(
        quoted_name(name, quote=False),
        kind,
        key=name.lower(),
        primary_key=primary_key,
        nullable=not primary_key if nullable is None else nullable,
        autoincrement=autoincrement,
        server_default=None if server_default is None else sa.text(server_default),
    )


def _number(name: str) -> sa.Column[Any]:
    return _column(name, sa.BigInteger(), nullable=False)


def _subscription_columns() -> tuple[sa.Column[Any], ...]:
    return tuple(
        _column(name, _NAME, nullable=False) for name in ("CONTAINER", "CLIENT_ID", "SUB_NAME")
    )


def _key(*names: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*(name.lower() for name in names))


_ARRIVAL_BITS: Final = 42
_LAST_OF_NO_DESTINATION: Final = (1 << _ARRIVAL_BITS) - 1


def base_of(number: int) -> int:
    """Return the ID before the first one of a destination."""
    return number << _ARRIVAL_BITS


def destination_number(row_id: int) -> int:
    """Return the number of the destination that an ID belongs to."""
    return row_id >> _ARRIVAL_BITS


def range_end(base: int) -> int:
    """Return the largest possible ID of a destination."""
    return base + _LAST_OF_NO_DESTINATION


_REMOVAL: Final = "L%"
"""The LIKE pattern of values whose first byte is `-`."""

_HEAD: Final = struct.Struct(">cqbih")
_LONGEST: Final = 250


def encode_xid(xid: XATransactionId, *, added: bool) -> str:
    """Return the column's text."""
    global_id, branch = xid.global_transaction_id or b"", xid.branch_qualifier or b""
    head = _HEAD.pack(b"+" if added else b"-", 0, 0, xid.format_id, len(global_id))
    text = b64encode(head + global_id + branch).decode()
    if len(text) > _LONGEST:
        raise JMSException(
            f"The transaction id {xid} is too long for the column XID ({_LONGEST} characters)"
        )
    return text


def decode_xid(text: str) -> tuple[XATransactionId, bool]:
    """Return the transaction, and whether the row was added rather than acknowledged."""
    try:
        data = b64decode(text, validate=True)
        flag, _, _, format_id, length = _HEAD.unpack_from(data)
    except (binascii.Error, ValueError, struct.error) as e:
        raise JMSException(f"The database has a damaged transaction id: {text!r}") from e
    rest = data[_HEAD.size :]
    return XATransactionId(format_id, rest[:length], rest[length:]), flag == b"+"


_CONTAINER: Final[Any] = sa.bindparam("at")
_CLIENT_ID: Final[Any] = sa.bindparam("client")
_SUB_NAME: Final[Any] = sa.bindparam("subscription")
_IDS: Final[Any] = sa.bindparam("ids", expanding=True)
_LEVEL: Final[Any] = sa.bindparam("level")
_AFTER: Final[Any] = sa.bindparam("after")
_SKIP: Final[Any] = sa.bindparam("skip")
_LIMIT: Final[Any] = sa.bindparam("limit")


class Statements:
    """All statements on a set of tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._build_messages()
        self._build_pages()
        self._build_subscriptions()
        self._build_pending()
        self._build_prepared()
        self._build_state()
        self._build_destinations()
        self._build_numbering()

    def live(self, prioritized: bool) -> sa.ColumnElement[bool]:
        """Return the condition that a message is pending for any subscription of its topic."""
        messages, acks = self.tables.messages, self.tables.acks.alias("a")
        m, a, k = messages.c, acks.c, self.tables.acked.alias("k").c
        acknowledged = (
            sa.exists()
            .where(
                k.container == a.container,
                k.client_id == a.client_id,
                k.sub_name == a.sub_name,
                k.id == m.id,
                k.xid.is_(None),
            )
            .correlate(messages, acks)  # SQLAlchemy correlates with the next enclosing query only
        )
        conditions = [a.container == m.container, a.last_acked_id < m.id, ~acknowledged]
        if prioritized:
            conditions.append(a.priority == m.priority)
        return sa.exists().where(*conditions).correlate(messages)

    def pending(self, prioritized: bool) -> sa.ColumnElement[bool]:
        """Return the condition that a message is pending for the subscription.

        A prepared acknowledgement counts as an acknowledgement.
        """
        return sa.and_(self._beyond_mark(prioritized), ~self._is_acknowledged())

    def _is_acknowledged(
        self, *further: Callable[[Any], sa.ColumnElement[bool]]
    ) -> sa.ColumnElement[bool]:
        """Return the condition that PYJMS_ACKED has an acknowledgement of the subscription."""
        m, acked = self.tables.messages.c, self.tables.acked.alias("k")
        conditions = [condition(acked.c) for condition in further]
        return sa.exists().where(self._mine(acked), acked.c.id == m.id, *conditions)

    def _not_acknowledged(self) -> sa.ColumnElement[bool]:
        """Return the condition that PYJMS_ACKED has no committed acknowledgement."""
        return ~self._is_acknowledged(lambda k: k.xid.is_(None))

    def _build_messages(self) -> None:
        m, d = self.tables.messages, self.tables.duplicates
        self.insert_message = sa.insert(m)
        self.delete_messages = sa.delete(m).where(m.c.id.in_(_IDS), m.c.container == _CONTAINER)
        self.update_message = sa.update(m).where(m.c.id == sa.bindparam("row_id"))
        self.delete_all = sa.delete(m).where(
            m.c.container == _CONTAINER, m.c.xid.is_(None), m.c.id <= _AFTER
        )
        self.delete_container = sa.delete(m).where(m.c.container == _CONTAINER)
        self.load_messages = sa.select(m.c.id, m.c.msg).where(m.c.id.in_(_IDS))
        self.message_ids = sa.select(m.c.msgid_prod, m.c.msgid_seq).where(m.c.id.in_(_IDS))
        found = (
            sa.select(m.c.id, m.c.priority)
            .where(
                m.c.msgid_prod == sa.bindparam("producer"),
                m.c.msgid_seq == sa.bindparam("sequence"),
                m.c.container == _CONTAINER,
                m.c.xid.is_(None),
            )
            .order_by(m.c.id)
        )
        self.find_message = found
        self.find_live_message = {p: found.where(self.live(p)) for p in (False, True)}
        last = sa.select(sa.func.max(m.c.msgid_seq)).where(
            m.c.msgid_prod == sa.bindparam("producer")
        )
        p = self.tables.producers
        used = p.c.msgid_prod == sa.bindparam("of_producer")
        sequence: Any = sa.bindparam("new_sequence")
        self.insert_producer = sa.insert(p)
        self.raise_producer = (
            sa.update(p)
            .where(used)
            .values(
                msgid_seq=sa.case((p.c.msgid_seq > sequence, p.c.msgid_seq), else_=sequence),
                last_used=sa.bindparam("now"),
            )
        )
        self.producer_sequence = sa.select(p.c.msgid_seq).where(used)
        self.producer_use = (
            sa.select(p.c.last_used).order_by(p.c.last_used.desc()).limit(1).offset(_SKIP)
        )
        self.forget_producers = sa.delete(p).where(p.c.last_used <= sa.bindparam("until"))
        self.last_sequence = last
        self.last_sequence_in_container = last.where(m.c.container == _CONTAINER)
        self.last_message_ids = (
            sa.select(m.c.container, m.c.msgid_prod, m.c.msgid_seq)
            .order_by(m.c.id.desc())
            .limit(_LIMIT)
        )
        self.insert_duplicate = sa.insert(d)
        self.trim_duplicates = sa.delete(d).where(d.c.container == _CONTAINER, d.c.id <= _AFTER)
        self.duplicates = (
            sa.select(d.c.id, d.c.duplicate_id)
            .where(d.c.container == _CONTAINER)
            .order_by(d.c.id.desc())
            .limit(_LIMIT)
        )

    def _build_pages(self) -> None:
        m = self.tables.messages.c
        base = (
            sa.select(m.id, m.priority)
            .where(m.container == _CONTAINER, m.xid.is_(None), m.id > _AFTER)
            .order_by(m.id)
            .limit(_LIMIT)
        )
        by_level = base.where(m.priority == _LEVEL)
        self.queue_page = {False: base, True: by_level}
        self.topic_page = {
            False: base.where(self.live(False)),
            True: by_level.where(self.live(True)),
        }
        self.subscription_page = {
            False: base.where(self.pending(False)),
            True: by_level.where(self.pending(True)),
        }

    def _build_subscriptions(self) -> None:
        a, k, n = self.tables.acks, self.tables.acked, self.tables.no_local
        o = self.tables.owners
        rows = [self._mine(table) for table in (a, k, n, o)]
        self.insert_acks, self.insert_acked = sa.insert(a), sa.insert(k)
        self.insert_no_local, self.insert_owner = sa.insert(n), sa.insert(o)
        self.delete_subscription = tuple(
            sa.delete(table).where(mine) for table, mine in zip((a, k, n, o), rows, strict=True)
        )
        self.forget_container = tuple(
            sa.delete(table).where(table.c.container == _CONTAINER)
            for table in (a, k, n, o, self.tables.duplicates, self.tables.destinations)
        )
        self.marks = sa.select(a.c.priority, a.c.last_acked_id).where(rows[0])
        self.delete_acked_up_to = sa.delete(k).where(
            k.c.container == _CONTAINER, k.c.id <= _AFTER, k.c.xid.is_(None)
        )
        self.delete_acked_message = sa.delete(k).where(
            k.c.container == _CONTAINER, k.c.id == sa.bindparam("row_id")
        )
        self.keys_of_container = sa.select(a.c.client_id, a.c.sub_name, a.c.priority).where(
            a.c.container == _CONTAINER
        )
        self.lowest_marks = (
            sa.select(a.c.priority, sa.func.min(a.c.last_acked_id))
            .where(a.c.container == _CONTAINER)
            .group_by(a.c.priority)
        )
        self.acks_rows = sa.select(
            a.c.sub_dest, a.c.selector, a.c.last_acked_id, a.c.priority
        ).where(rows[0])
        self.subscriptions = sa.select(
            *(a.c.container, a.c.client_id, a.c.sub_name),
            *(a.c.sub_dest, a.c.selector, a.c.priority),
        ).order_by(a.c.container, a.c.client_id, a.c.sub_name)
        self.no_local, self.owners = sa.select(n), sa.select(o)

    def _build_pending(self) -> None:
        """Build the statements that depend on whether messages are ordered by priority."""
        m, a, k = self.tables.messages, self.tables.acks, self.tables.acked
        of_marks, of_acked = self._mine(a), self._mine(k)
        self.move_mark: dict[bool, sa.Update] = {}
        self.forget_acked: dict[bool, sa.Delete] = {}
        self.last_acked: dict[bool, Any] = {}
        self.next_pending: dict[bool, Any] = {}
        self.live_of: dict[bool, Any] = {}
        self.pending_of: dict[bool, Any] = {}
        self.delete_dead: dict[bool, sa.Delete] = {}
        self.pending_count: dict[bool, Any] = {}
        self.live_count: dict[bool, Any] = {}
        unhidden = sa.and_(m.c.container == _CONTAINER, m.c.xid.is_(None))
        for p in (False, True):
            move = sa.update(a).where(of_marks).values(last_acked_id=sa.bindparam("mark"))
            forget = sa.delete(k).where(of_acked, k.c.id <= _AFTER, k.c.xid.is_(None))
            following = sa.select(m.c.id).where(
                unhidden, m.c.id > _AFTER, self._not_acknowledged(), m.c.id.not_in(_IDS)
            )
            ahead = sa.select(sa.func.max(k.c.id)).where(of_acked, k.c.xid.is_(None))
            if p:
                ahead = ahead.where(k.c.priority == _LEVEL)
                move = move.where(a.c.priority == _LEVEL)
                forget = forget.where(k.c.priority == _LEVEL)
                following = following.where(m.c.priority == _LEVEL)
            self.move_mark[p], self.forget_acked[p] = move, forget
            self.last_acked[p] = ahead
            self.next_pending[p] = following.order_by(m.c.id).limit(1)
            self.live_of[p] = sa.select(m.c.id).where(m.c.id.in_(_IDS), self.live(p))
            self.pending_of[p] = sa.select(m.c.id, m.c.priority).where(
                m.c.id.in_(_IDS), unhidden, self._beyond_mark(p), self._not_acknowledged()
            )
            self.delete_dead[p] = sa.delete(m).where(unhidden, ~self.live(p))
            self.pending_count[p] = sa.select(sa.func.count()).where(unhidden, self.pending(p))
            self.live_count[p] = sa.select(sa.func.count()).where(unhidden, self.live(p))
        self.row_count = sa.select(sa.func.count()).where(unhidden)
        self.rows_behind = sa.select(sa.func.count()).where(unhidden, m.c.id > _AFTER)
        past = sa.select(m.c.id).where(unhidden, m.c.id <= _AFTER).order_by(m.c.id).limit(_LIMIT)
        self.past = {False: past, True: past.where(m.c.priority == _LEVEL)}
        self.past_single_mark = sa.select(m.c.id, m.c.priority).where(
            unhidden, m.c.id > _AFTER, m.c.id <= sa.bindparam("mark"), m.c.priority == _LEVEL
        )

    def _build_prepared(self) -> None:
        m, k = self.tables.messages, self.tables.acked
        row = m.c.id == sa.bindparam("row_id")
        self.set_xid = sa.update(m).where(row).values(xid=sa.bindparam("new_xid"))
        self.commit_add = sa.update(m).where(row).values(id=sa.bindparam("new_id"), xid=None)
        self.rollback_add = sa.delete(m).where(row)
        self.forget_prepared = sa.delete(k).where(
            self._mine(k), k.c.id == sa.bindparam("row_id"), k.c.xid.is_not(None)
        )
        self.prepared_messages = (
            sa.select(m.c.xid, m.c.container, m.c.id, m.c.priority, m.c.msg)
            .where(m.c.xid.is_not(None))
            .order_by(m.c.id)
        )
        self.prepared_acknowledgements = (
            sa.select(
                *(k.c.xid, k.c.container, k.c.client_id, k.c.sub_name),
                *(m.c.id, m.c.priority, m.c.msg),
            )
            .join_from(k, m, k.c.id == m.c.id)
            .where(k.c.xid.is_not(None))
            .order_by(m.c.id)
        )

    def _build_state(self) -> None:
        s = self.tables.state
        self.state = sa.select(s.c.name, s.c.value)
        self.insert_state = sa.insert(s)
        named = s.c.name == sa.bindparam("state")
        self.set_state = sa.update(s).where(named).values(value=sa.bindparam("new"))
        self.raise_state = self.set_state.where(s.c.value < sa.bindparam("new"))
        self.swap_state = self.set_state.where(s.c.value == sa.bindparam("old"))
        self.get_state = sa.select(s.c.value).where(named)

    def _build_destinations(self) -> None:
        m, d = self.tables.messages, self.tables.destinations
        self.destination_rows = sa.select(
            d.c.container, d.c.epoch, d.c.last_id, d.c.msg_count, d.c.msg_size
        )
        self.destination_row = sa.select(d.c.msg_count, d.c.msg_size).where(
            d.c.container == _CONTAINER
        )
        self.insert_destination = sa.insert(d)
        mine = d.c.container == sa.bindparam("where_container")
        self.count_destination = (
            sa.update(d)
            .where(mine)
            .values(
                last_id=sa.func.coalesce(sa.bindparam("new_last"), d.c.last_id),
                msg_count=d.c.msg_count + sa.bindparam("count"),
                msg_size=d.c.msg_size + sa.bindparam("bytes"),
            )
        )
        self.set_destination = (
            sa.update(d)
            .where(mine)
            .values(msg_count=sa.bindparam("count"), msg_size=sa.bindparam("bytes"))
        )
        self.message_counts = (
            sa.select(
                m.c.container, sa.func.count().label("messages"), sa.func.max(m.c.id).label("last")
            )
            .where(self._is_committed())
            .group_by(m.c.container)
        )
        self.frame_size = sa.select(sa.func.sum(sa.func.length(m.c.msg))).where(
            m.c.container == _CONTAINER
        )

    def _build_numbering(self) -> None:
        """Build the statements that move the messages of a destination to another range of IDs."""
        m, a = self.tables.messages, self.tables.acks
        self.highest_without_destination = sa.select(sa.func.max(m.c.id)).where(
            m.c.id <= _LAST_OF_NO_DESTINATION
        )
        begin: Any = sa.bindparam("begin")
        end: Any = sa.bindparam("end")
        self.foreign_rows = (
            sa.select(m.c.id)
            .where(
                m.c.container == _CONTAINER,
                self._is_committed(),
                sa.or_(m.c.id <= begin, m.c.id > end),
            )
            .order_by(m.c.id)
        )
        self.highest_in_range = sa.select(sa.func.max(m.c.id)).where(m.c.id > begin, m.c.id <= end)
        self.renumber = (
            sa.update(m).where(m.c.id == sa.bindparam("row_id")).values(id=sa.bindparam("new_id"))
        )
        self.foreign_marks = (
            sa.select(a.c.last_acked_id)
            .where(
                a.c.container == _CONTAINER,
                sa.or_(a.c.last_acked_id < begin, a.c.last_acked_id > end),
            )
            .distinct()
        )
        self.renumber_mark = (
            sa.update(a)
            .where(a.c.container == _CONTAINER, a.c.last_acked_id == sa.bindparam("old_mark"))
            .values(last_acked_id=sa.bindparam("new_mark"))
        )

    def _is_committed(self) -> sa.ColumnElement[bool]:
        """Return the condition that a message was added; a prepared removal may hide it."""
        m = self.tables.messages
        return sa.or_(m.c.xid.is_(None), m.c.xid.like(_REMOVAL))

    def _mine(self, table: object) -> sa.ColumnElement[bool]:
        c = table.c  # type: ignore[attr-defined]
        return sa.and_(
            c.container == _CONTAINER, c.client_id == _CLIENT_ID, c.sub_name == _SUB_NAME
        )

    def _beyond_mark(self, prioritized: bool) -> sa.ColumnElement[bool]:
        m, acks = self.tables.messages.c, self.tables.acks.alias("a")
        conditions = [self._mine(acks), acks.c.last_acked_id < m.id]
        if prioritized:
            conditions.append(acks.c.priority == m.priority)
        return sa.exists().where(*conditions)


@functools.lru_cache(maxsize=8)
def statements_with(names: TableNames) -> Statements:
    """Return the statements on tables of these names.

    Building them takes longer than opening a small database, and they are stateless.
    """
    return Statements(Tables(names))
