"""Consistency checks of an index, for `pyjms broker journal verify`."""

from __future__ import annotations

from typing import Any

from pyjms_broker.store.kahadb.index.database.connections import Database

__all__ = ["problems"]

_COUNTS = """
SELECT d.name, d.count, d.size,
    (SELECT count(*) FROM messages m WHERE m.contents = d.contents),
    (SELECT coalesce(sum(size), 0) FROM messages m WHERE m.contents = d.contents),
    (SELECT count(*) FROM ids i WHERE i.contents = d.contents),
    (SELECT coalesce(sum(messages), 0) FROM files f WHERE f.contents = d.contents)
FROM destinations d ORDER BY d.name
"""
_LOST_IDS = """
SELECT count(*) FROM messages m WHERE NOT EXISTS (
    SELECT 1 FROM ids i WHERE i.contents = m.contents AND i.producer = m.producer
        AND i.sequence = m.sequence AND i.level = m.level AND i.arrival = m.arrival)
    OR NOT EXISTS (
    SELECT 1 FROM producers p WHERE p.contents = m.contents AND p.number = m.producer
        AND p.highest >= m.sequence)
"""


def problems(database: Database) -> list[str]:
    """Return a sentence for each inconsistency of the database."""
    found = [f"sqlite3: {row[0]}." for row in database.rows("PRAGMA quick_check(10)")]
    if found != ["sqlite3: ok."]:
        return found
    found = []
    for row in database.rows(_COUNTS):
        found += _destination_problems(*row)
    if lost := _first(database, _LOST_IDS):
        found.append(f"{lost} messages cannot be found by their ids.")
    return found


def _destination_problems(
    name: str, count: int, size: int, messages: int, bytes_: int, ids: int, in_files: int
) -> list[str]:
    checks = [
        ("messages", count, messages),
        ("bytes", size, bytes_),
        ("message ids", count, ids),
        ("messages in segments", count, in_files),
    ]
    return [
        f"{name}: {counted} {what} instead of {recorded}."
        for what, recorded, counted in checks
        if recorded != counted
    ]


def _first(database: Database, query: str) -> Any:
    return database.rows(query)[0][0]
