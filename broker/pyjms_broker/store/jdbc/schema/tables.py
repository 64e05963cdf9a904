"""The tables: three are ActiveMQ's; the others hold data for which those have no columns.

Names are never quoted, so that a database that folds their case finds ActiveMQ's tables. Within a
destination, IDs are in commit order. (activemq-persistence J2, J3, J4)
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from pyjms_broker.store.jdbc.settings import Statements

__all__ = ["LOCK_ROW", "SUBSCRIPTION_PRIORITY", "Tables"]

LOCK_ROW: Final = 1
SUBSCRIPTION_PRIORITY: Final = 5
"""PRIORITY of a durable subscription's only row if priorities are ignored.

(activemq-persistence J3)
"""

_MYSQL: Final = ("mysql", "mariadb")
# MySQL compares case-insensitively by default, and its BLOBs are limited to 64 KiB.
_NAME: Final = String(250).with_variant(mysql.VARCHAR(250, collation="utf8mb4_bin"), *_MYSQL)
_BLOB: Final = LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL)
# SQLite keeps rows in key order only if the key is an INTEGER.
_ID: Final = BigInteger().with_variant(Integer(), "sqlite")


class Tables:
    """The tables with one name prefix. Columns are `c.id`, `c.container` and so on."""

    def __init__(self, names: Statements) -> None:
        self.metadata = MetaData()
        self._prefix = names.table_prefix
        self.messages = self._messages(names.message_table_name)
        self.acks = self._acks(names.durable_sub_acks_table_name)
        self.lock = self._table(
            names.lock_table_name,
            _column("ID", _ID, primary_key=True, autoincrement=False),
            _column("TIME", BigInteger()),
            _column("BROKER_NAME", _NAME),
        )
        self.state = self._named("PYJMS_STATE", "NAME", "VALUE")
        self.destinations = self._named(
            "PYJMS_DESTINATIONS", "CONTAINER", "EPOCH", "LAST_ID", "MSG_COUNT", "MSG_SIZE"
        )
        self.acked = self._acked()
        self.no_local = self._table(
            "PYJMS_NO_LOCAL", *_subscription_columns(), _key("CONTAINER", "CLIENT_ID", "SUB_NAME")
        )
        self.producers = self._named("PYJMS_PRODUCERS", "MSGID_PROD", "MSGID_SEQ", "LAST_USED")
        self.duplicates = self._table(
            "PYJMS_DUPLICATES",
            _column("CONTAINER", _NAME, nullable=False),
            _number("ID"),
            _column("DUPLICATE_ID", Text(), nullable=False),
            _key("CONTAINER", "ID"),
        )

    def _named(self, table: str, key: str, *numbers: str) -> Table:
        """Return a table of numbers by a name."""
        return self._table(table, _column(key, _NAME, primary_key=True), *map(_number, numbers))

    def _messages(self, name: str) -> Table:
        table = self._table(
            name,
            _column("ID", _ID, primary_key=True, autoincrement=False),
            _column("CONTAINER", _NAME),
            _column("MSGID_PROD", _NAME),
            _column("MSGID_SEQ", BigInteger()),
            _column("EXPIRATION", BigInteger()),
            _column("MSG", _BLOB),
            _column("PRIORITY", BigInteger()),
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
            Index(quoted_name(f"{table.name}_{suffix}", quote=False), *columns)
        return table

    def _acks(self, name: str) -> Table:
        """Messages up to LAST_ACKED_ID are acknowledged, of all priorities or of the row's."""
        return self._table(
            name,
            _column("CONTAINER", _NAME, nullable=False),
            _column("SUB_DEST", _NAME),
            _column("CLIENT_ID", _NAME, nullable=False),
            _column("SUB_NAME", _NAME, nullable=False),
            _column("SELECTOR", _NAME),
            _column("LAST_ACKED_ID", BigInteger()),
            _column("PRIORITY", BigInteger(), nullable=False, server_default="5"),
            _column("XID", _NAME),
            _key("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY"),
        )

    def _acked(self) -> Table:
        """Acknowledgements ahead of LAST_ACKED_ID, or in a prepared transaction (XID)."""
        return self._table(
            "PYJMS_ACKED",
            *_subscription_columns(),
            _column("ID", BigInteger(), nullable=False),
            _column("PRIORITY", SmallInteger(), nullable=False),
            _column("XID", _NAME),
            _key("CONTAINER", "CLIENT_ID", "SUB_NAME", "ID"),
        )

    def _table(self, name: str, *parts: Column[Any] | PrimaryKeyConstraint) -> Table:
        full = quoted_name(self._prefix + name, quote=False)
        # otherwise the engine on MySQL depends on the server's default
        return Table(full, self.metadata, *parts, mysql_engine="InnoDB", mariadb_engine="InnoDB")


def _column(
    name: str,
    kind: TypeEngine[Any],
    *,
    primary_key: bool = False,
    nullable: bool | None = None,
    autoincrement: bool = False,
    server_default: str | None = None,
) -> Column[Any]:
    return Column(
        quoted_name(name, quote=False),
        kind,
        key=name.lower(),
        primary_key=primary_key,
        nullable=not primary_key if nullable is None else nullable,
        autoincrement=autoincrement,
        server_default=None if server_default is None else text(server_default),
    )


def _number(name: str) -> Column[Any]:
    return _column(name, BigInteger(), nullable=False)


def _subscription_columns() -> tuple[Column[Any], ...]:
    return tuple(
        _column(name, _NAME, nullable=False) for name in ("CONTAINER", "CLIENT_ID", "SUB_NAME")
    )


def _key(*names: str) -> PrimaryKeyConstraint:
    return PrimaryKeyConstraint(*(name.lower() for name in names))
