"""The tables, for `metadata.create_all(engine)` or a migration tool."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Float, MetaData, String, Table

__all__ = ["INBOX", "metadata"]

metadata: Final = MetaData()

INBOX: Final = Table(
    "pyjms_inbox",
    metadata,
    Column("listener", String(200), primary_key=True),
    Column("message_key", String(300), primary_key=True),
    Column("handled_at", Float, nullable=False, index=True),
)
"""Which messages were handled, by a name of who handled them; seconds since 1970."""
