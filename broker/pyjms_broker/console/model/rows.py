"""Rows of the console's tables of messages and journal files, and a message with its details."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyjms_broker.console.model.bodies import Body

__all__ = ["Event", "KeeperRow", "MessageRow", "SegmentRow", "WholeMessage"]


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in a table."""

    message_id: str
    kind: str
    correlation_id: str
    persistent: bool
    priority: int
    redeliveries: int
    reply_to: str
    sent: str
    """JMSTimestamp as UTC time."""
    type: str
    group: str
    size: int
    preview: str
    in_flight: bool
    original_destination: str
    cause: str
    """The reason why it is a dead letter; empty if it is not one, or unknown."""


class Event(NamedTuple):
    """An event in the history of a message."""

    what: str
    when: str
    """Time in UTC; empty: unknown."""
    details: str


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """A message with all data of its page."""

    row: MessageRow
    headers: tuple[tuple[str, str], ...]
    properties: tuple[tuple[str, str, str], ...]
    """Name, type and value."""
    properties_note: str
    body: Body
    journey: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class KeeperRow:
    """A destination whose messages keep a file, and its oldest message, if known."""

    name: str
    is_topic: bool
    messages: int
    oldest: str | None


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A journal file that is kept, with the reasons."""

    name: str
    reasons: tuple[str, ...]
    keepers: tuple[KeeperRow, ...]
