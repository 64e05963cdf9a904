"""A journal's records as rows: what each says, then the columns of its message if it has one."""

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
"""Columns of `view=records`, a row a record. `error`: why its message could not be read."""
MESSAGES: Final = (("subscription", "string"), *MESSAGE_COLUMNS)
"""Columns of `view=messages`, a row a message that is there, for each subscription on topics."""

_NO_MESSAGE: Final = (None,) * len(MESSAGE_COLUMNS)
_AT: Final = {name: index for index, (name, _) in enumerate(MESSAGE_COLUMNS)}


class RecordFilter(NamedTuple):
    """What of the journal somebody wants; None: all. Times in microseconds, both included."""

    commands: Collection[str] | None = None
    destinations: Collection[str] | None = None
    earliest: int | None = None
    latest: int | None = None

    def takes(self, command: str, destination: str | None) -> bool:
        """Whether records of this kind and destination may be wanted."""
        return (self.commands is None or command in self.commands) and (
            self.destinations is None or destination in self.destinations
        )

    def takes_time(self, timestamp: int | None) -> bool:
        """Whether a message of that time may be wanted."""
        if self.earliest is None and self.latest is None:
            return True
        return (
            timestamp is not None
            and (self.earliest is None or timestamp >= self.earliest)
            and (self.latest is None or timestamp <= self.latest)
        )

    def takes_message(self, values: Sequence[Any]) -> bool:
        """Whether a message is wanted, by the values of its columns."""
        destination, timestamp = values[_AT["destination"]], values[_AT["timestamp"]]
        return self.takes("addMessage", destination) and self.takes_time(timestamp)


ALL: Final = RecordFilter()


def record_row(
    record: JournalRecord, wanted: RecordFilter, version: int = STORE_OPENWIRE_VERSION
) -> tuple[object, ...] | None:
    """Return the record as a row of RECORDS; None: it is not wanted.

    A record or message that cannot be read is a row that says so in `error`.
    """
    own = (record.location.file_id, record.location.offset, record.size)
    try:
        command = decode_command(record.payload)
        name, found = _command_name(command), _find(command)
        destination = None if found is None else from_kaha_destination(found).qualified_name
    except JMSException as error:
        return (*own, None, None, None, str(error), *_NO_MESSAGE)
    if not wanted.takes(name, destination):
        return None
    head = (*own, name, _transaction(command), getattr(command, "subscription_key", None))
    try:
        values = _message(command, destination, version)
    except JMSException as error:
        return (*head, str(error), *_named(command, destination))
    if not wanted.takes_time(values[_AT["timestamp"]]):
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
    """Return `addMessage` for a KahaAddMessageCommand, and so on. (persistence K7)"""
    name = type(command).__name__.removeprefix("Kaha").removesuffix("Command")
    return name[0].lower() + name[1:]


def _transaction(command: KahaCommand) -> str | None:
    info = getattr(command, "transaction_info", None)
    return str(from_transaction_info(info)) if isinstance(info, KahaTransactionInfo) else None


def apply_filters(filters: Collection[Any], wanted: RecordFilter = ALL) -> RecordFilter:
    """Return what the filters of a query leave, as far as the reader can tell by itself."""
    for found in filters:
        column = ".".join(getattr(found, "attribute", ()))  # a Not has none of its own
        step = _FILTERS.get((type(found).__name__, column))
        if step is not None:
            wanted = step(wanted, found.value)
    return wanted


def _and(before: Collection[str] | None, these: Collection[str]) -> Collection[str]:
    return frozenset(these) if before is None else frozenset(before) & frozenset(these)


def micros(value: datetime) -> int:
    """Return a time as Arrow has it."""
    moment = value.astimezone(UTC)
    return round(moment.timestamp() * 1_000_000)


def _from(wanted: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return wanted._replace(
        earliest=bound if wanted.earliest is None else max(bound, wanted.earliest)
    )


def _until(wanted: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return wanted._replace(latest=bound if wanted.latest is None else min(bound, wanted.latest))


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
"""Filters that let records be passed over; Spark applies all of them again."""
