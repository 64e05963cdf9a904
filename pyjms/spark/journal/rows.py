"""Journal records as rows: the columns of the record, followed by those of its message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.spark.columns import MESSAGE_COLUMNS, message_values
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import KahaAddMessageCommand, KahaUpdateMessageCommand
from pyjms.wire.kahadb.frames import (
    STORE_OPENWIRE_VERSION,
    decode_message,
    from_kaha_destination,
    from_transaction_info,
)
from pyjms.wire.kahadb.reader import JournalRecord
from pyjms.wire.kahadb.structures import KahaCommand, KahaDestination, KahaTransactionInfo

__all__ = ["ALL", "MESSAGES", "RECORDS", "RecordFilter", "apply_filters", "micros", "record_row"]

_OWN: Final = (
    ("file_id", "int"),
    ("offset", "long"),
    ("size", "int"),
    ("command", "string"),
    ("transaction", "string"),
    ("subscription", "string"),
    ("error", "string"),
)
RECORDS: Final = (*_OWN, *MESSAGE_COLUMNS)
"""The columns of `view=records`; `error` says why a message could not be read."""
MESSAGES: Final = (("subscription", "string"), *MESSAGE_COLUMNS)
"""The columns of `view=messages`; a message of a topic has a row per subscription."""

_NO_MESSAGE: Final = (None,) * len(MESSAGE_COLUMNS)
_AT: Final = {name: index for index, (name, _) in enumerate(MESSAGE_COLUMNS)}


class RecordFilter(NamedTuple):
    """The records to read; None: all. Times are in microseconds, both inclusive."""

    commands: Collection[str] | None = None
    destinations: Collection[str] | None = None
    earliest: int | None = None
    latest: int | None = None

    def accepts(self, command: str, destination: str | None) -> bool:
        """Return whether records of this kind and destination match."""
        return (self.commands is None or command in self.commands) and (
            self.destinations is None or destination in self.destinations
        )

    def accepts_time(self, timestamp: int | None) -> bool:
        """Return whether a message with this timestamp matches."""
        if self.earliest is None and self.latest is None:
            return True
        return (
            timestamp is not None
            and (self.earliest is None or timestamp >= self.earliest)
            and (self.latest is None or timestamp <= self.latest)
        )

    def accepts_message(self, values: Sequence[Any]) -> bool:
        """Return whether a message matches, given the values of its columns."""
        destination, timestamp = values[_AT["destination"]], values[_AT["timestamp"]]
        return self.accepts("addMessage", destination) and self.accepts_time(timestamp)


ALL: Final = RecordFilter()


def record_row(
    record: JournalRecord, record_filter: RecordFilter, version: int = STORE_OPENWIRE_VERSION
) -> tuple[object, ...] | None:
    """Return the record as a row of RECORDS; None: it does not match.

    A record or message that cannot be read becomes a row with an `error`.
    """
    own = (record.location.file_id, record.location.offset, record.size)
    try:
        command = decode_command(record.payload)
        name, found = _command_name(command), _find(command)
        destination = None if found is None else from_kaha_destination(found).qualified_name
    except JMSException as error:
        return (*own, None, None, None, str(error), *_NO_MESSAGE)
    if not record_filter.accepts(name, destination):
        return None
    head = (*own, name, _transaction(command), getattr(command, "subscription_key", None))
    try:
        values = _message(command, destination, version)
    except JMSException as error:
        return (*head, str(error), *_named(command, destination))
    if not record_filter.accepts_time(values[_AT["timestamp"]]):
        return None
    return (*head, None, *values)


def _message(command: KahaCommand, destination: str | None, version: int) -> tuple[Any, ...]:
    added = command.message if isinstance(command, KahaUpdateMessageCommand) else command
    if not isinstance(added, KahaAddMessageCommand):
        return _named(command, destination)
    message = decode_message(added.message, version)
    return message_values(message, None, message.redelivery_counter)


def _named(command: KahaCommand, destination: str | None) -> tuple[Any, ...]:
    values: list[Any] = list(_NO_MESSAGE)
    values[_AT["destination"]] = destination
    values[_AT["message_id"]] = getattr(command, "message_id", None)
    return tuple(values)


def _find(command: KahaCommand) -> KahaDestination | None:
    if isinstance(command, KahaUpdateMessageCommand):
        return command.message.destination
    found = getattr(command, "destination", None)
    return found if isinstance(found, KahaDestination) else None


def _command_name(command: KahaCommand) -> str:
    """Return `addMessage` for a KahaAddMessageCommand, and so on. (activemq-persistence K7)"""
    name = type(command).__name__.removeprefix("Kaha").removesuffix("Command")
    return name[0].lower() + name[1:]


def _transaction(command: KahaCommand) -> str | None:
    info = getattr(command, "transaction_info", None)
    return str(from_transaction_info(info)) if isinstance(info, KahaTransactionInfo) else None


def apply_filters(filters: Collection[Any], record_filter: RecordFilter = ALL) -> RecordFilter:
    """Return a record filter narrowed by those filters of a query that it can represent."""
    for found in filters:
        column = ".".join(getattr(found, "attribute", ()))  # a Not filter has no `attribute`
        step = _FILTERS.get((type(found).__name__, column))
        if step is not None:
            record_filter = step(record_filter, found.value)
    return record_filter


def _and(before: Collection[str] | None, these: Collection[str]) -> Collection[str]:
    return frozenset(these) if before is None else frozenset(before) & frozenset(these)


def micros(value: datetime) -> int:
    """Return a time in microseconds since 1970, as in Arrow."""
    moment = value.astimezone(UTC)
    return round(moment.timestamp() * 1_000_000)


def _from(record_filter: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return record_filter._replace(
        earliest=bound if record_filter.earliest is None else max(bound, record_filter.earliest)
    )


def _until(record_filter: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return record_filter._replace(
        latest=bound if record_filter.latest is None else min(bound, record_filter.latest)
    )


_FILTERS: Final[dict[tuple[str, str], Callable[[RecordFilter, Any], RecordFilter]]] = {
    ("EqualTo", "command"): lambda w, v: w._replace(commands=_and(w.commands, {v})),
    ("In", "command"): lambda w, v: w._replace(commands=_and(w.commands, v)),
    ("EqualTo", "destination"): lambda w, v: w._replace(destinations=_and(w.destinations, {v})),
    ("In", "destination"): lambda w, v: w._replace(destinations=_and(w.destinations, v)),
    ("EqualTo", "timestamp"): lambda w, v: _until(_from(w, v), v),
    ("GreaterThan", "timestamp"): _from,
    ("GreaterThanOrEqual", "timestamp"): _from,
    ("LessThan", "timestamp"): _until,
    ("LessThanOrEqual", "timestamp"): _until,
}
"""The filters by which records are skipped; Spark applies all of them again."""
