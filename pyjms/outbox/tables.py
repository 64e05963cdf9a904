"""The tables, for `metadata.create_all(engine)` or a migration tool."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

metadata: Final = MetaData()

INBOX: Final = Table(
    "pyjms_inbox",
    metadata,
    Column("listener", String(200), primary_key=True),
    Column("message_key", String(300), primary_key=True),
    Column("handled_at", Float, nullable=False, index=True),
)
"""The handled messages, with the name of the handler; times are seconds since 1970."""

OUTBOX: Final = Table(
    "pyjms_outbox",
    metadata,
    Column(
        "id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    ),
    Column("outbox", String(100), nullable=False, index=True),
    Column("message_id", String(36), nullable=False, unique=True),
    Column("destination", String(500), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("headers", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("sent_at", Float),
    sqlite_autoincrement=True,
)
"""The messages to send, in the order of `id`; `sent_at` is set if sent rows are kept."""

RELAYS: Final = Table(
    "pyjms_outbox_relays",
    metadata,
    Column("outbox", String(100), primary_key=True),
    Column("relay", String(36), nullable=False),
    Column("ends_at", Float, nullable=False),
)
"""The lease of each outbox: the relay that sends its messages, and the time of expiry."""

DEFAULT_OUTBOX: Final = "default"

OUTBOX_ID: Final = "pyjms_outbox_id"
"""The property with a message's id from its outbox, the same each time the message is sent."""
