"""The attributes of policies and strategies that look for duplicates."""

from __future__ import annotations

from pyjms_broker.attribute import count


def audited_producers(default: int) -> int:
    """Declare the attribute for the number of producers of an audit."""
    return count(default, "Number of producers that the audit remembers.", minimum=1)


def audit_depth(default: int, audit: str = "the audit") -> int:
    """Declare the attribute for the number of messages of each producer."""
    return count(default, f"Number of messages of each producer that {audit} remembers.", minimum=1)
