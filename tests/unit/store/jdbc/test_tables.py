"""The tables, as ActiveMQ has them, on each kind of database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from pyjms_broker.store.jdbc.schema import Tables
from pyjms_broker.store.jdbc.settings import JDBCSettings, Statements

ACTIVEMQ = {
    "ACTIVEMQ_MSGS": [
        *("ID", "CONTAINER", "MSGID_PROD", "MSGID_SEQ"),
        *("EXPIRATION", "MSG", "PRIORITY", "XID"),
    ],
    "ACTIVEMQ_ACKS": [
        *("CONTAINER", "SUB_DEST", "CLIENT_ID", "SUB_NAME"),
        *("SELECTOR", "LAST_ACKED_ID", "PRIORITY", "XID"),
    ],
    "ACTIVEMQ_LOCK": ["ID", "TIME", "BROKER_NAME"],
}


POSTGRESQL: Any = postgresql.dialect()  # type: ignore[no-untyped-call]


def tables(**names: str) -> Tables:
    return Tables(Statements(**names))


def create(table: Any, dialect: Any) -> str:
    return str(CreateTable(table).compile(dialect=dialect))


def columns(table: Any, dialect: Any) -> dict[str, str]:
    found = {}
    for line in create(table, dialect).splitlines():
        name, _, kind = line.strip().rstrip(",").partition(" ")
        if line.startswith("\t"):
            found[name] = kind
    return found


@pytest.mark.fact("activemq-persistence J2")
def test_messages() -> None:
    table = tables().messages
    found = columns(table, POSTGRESQL)
    text = "VARCHAR(250)"
    assert found.pop("PRIMARY") == "KEY (ID)"
    assert found == {
        "ID": "BIGINT NOT NULL",
        "CONTAINER": text,
        "MSGID_PROD": text,
        "MSGID_SEQ": "BIGINT",
        "EXPIRATION": "BIGINT",
        "MSG": "BYTEA",
        "PRIORITY": "BIGINT",
        "XID": text,
    }
    indexes = {tuple(column.name for column in index.columns) for index in table.indexes}
    assert {("MSGID_PROD", "MSGID_SEQ"), ("ID", "XID", "CONTAINER")} <= indexes
    assert {"CONTAINER", "EXPIRATION", "PRIORITY", "XID"} <= {index[0] for index in indexes}


@pytest.mark.fact("activemq-persistence J4")
@pytest.mark.fact("activemq-persistence J3")
def test_acknowledgements_and_the_lock() -> None:
    found = columns(tables().acks, POSTGRESQL)
    assert found["PRIORITY"] == "BIGINT DEFAULT 5 NOT NULL"
    assert found["PRIMARY"] == "KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)"
    assert found["LAST_ACKED_ID"] == "BIGINT"
    lock = columns(tables().lock, POSTGRESQL)
    expected = {"ID": "BIGINT NOT NULL", "TIME": "BIGINT", "BROKER_NAME": "VARCHAR(250)"}
    assert lock == {**expected, "PRIMARY": "KEY (ID)"}


@pytest.mark.parametrize("dialect", [sqlite, postgresql, mysql])
def test_activemqs_columns_have_its_names_unquoted(dialect: Any) -> None:
    for table in tables().metadata.sorted_tables:
        text = create(table, dialect.dialect())
        assert '"' not in text
        assert "`" not in text.replace("`VALUE`", "")
        for index in table.indexes:
            assert '"' not in str(CreateIndex(index).compile(dialect=dialect.dialect()))
        if table.name in ACTIVEMQ:
            assert [column.name for column in table.columns] == ACTIVEMQ[table.name]


@pytest.mark.fact("activemq-persistence J4")
def test_names_can_be_changed() -> None:
    changed = tables(
        table_prefix="X_",
        message_table_name="M",
        durable_sub_acks_table_name="A",
        lock_table_name="L",
    )
    assert [t.name for t in (changed.messages, changed.acks, changed.lock)] == ["X_M", "X_A", "X_L"]
    assert all(table.name.startswith("X_") for table in changed.metadata.sorted_tables)
    names = {str(index.name) for index in changed.messages.indexes}
    assert all(name.startswith("X_M_") for name in names)


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_mysql_keeps_large_messages_and_tells_case_apart(name: str) -> None:
    dialect = mysql.dialect()
    dialect.name = name
    found = columns(tables().messages, dialect)
    assert found["MSG"] == "LONGBLOB"
    assert found["CONTAINER"] == "VARCHAR(250) COLLATE utf8mb4_bin"
    assert "ENGINE=InnoDB" in create(tables().messages, mysql.dialect())


def test_sqlite_orders_its_rows_by_the_id() -> None:
    assert columns(tables().messages, sqlite.dialect())["ID"] == "INTEGER NOT NULL"


@pytest.mark.fact("activemq-persistence J4")
async def test_one_row_locks_and_ids_rise(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store(statements=Statements(table_prefix="P_"))
    queue = store.queue()
    await store.send(queue, 5, 3, 4)
    rows = sql("SELECT MSGID_SEQ FROM P_ACTIVEMQ_MSGS ORDER BY ID")
    assert rows == [(5,), (3,), (4,)]
    assert sql("SELECT COUNT(*) FROM P_ACTIVEMQ_LOCK") == [(0,)]  # SQLite's lock is a file
    await store.adapter.stop()
    leased = await open_store(statements=Statements(table_prefix="P_"), locker=_lease())
    assert sql("SELECT ID, BROKER_NAME FROM P_ACTIVEMQ_LOCK") == [(1, "localhost")]
    assert leased.texts(leased.queue()) == ["5", "3", "4"]


def _lease() -> Any:
    from pyjms_broker.store.jdbc.settings import Locker

    return Locker.LEASE


@pytest.mark.fact("activemq-persistence J1")
def test_defaults_are_activemqs() -> None:
    settings = JDBCSettings()
    assert settings.create_tables_on_startup
    assert settings.cleanup_period == 300
    assert settings.max_rows == 32767
    assert not settings.enable_audit
    assert (settings.max_producers_to_audit, settings.max_audit_depth) == (1024, 1000)
    assert settings.audit_recovery_depth == 1024
    assert settings.query_timeout is None
    assert settings.network_timeout is None
    assert settings.use_lock
    assert settings.lock_keep_alive_period == 30
    assert settings.lock_acquire_sleep_interval == 10
    assert settings.transaction_isolation is None


async def test_tables_need_not_be_made(open_store: Callable[..., Any], tmp_path: Path) -> None:
    from pyjms.errors import JMSException

    with pytest.raises(JMSException):
        await open_store(create_tables_on_startup=False)
    first = await open_store()
    await first.send(first.queue(), 1)
    await first.adapter.stop()
    second = await open_store(create_tables_on_startup=False)
    assert second.texts(second.queue()) == ["1"]
