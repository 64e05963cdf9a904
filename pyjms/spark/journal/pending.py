"""The pending messages of a journal: added and not removed, with transactions applied.

The records of a transaction, local or prepared, take effect with its commit; those of a transaction
that was never committed have none. A message on a topic is pending for each durable subscription
that has not acknowledged it. (activemq-persistence K15, K22, K31)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.reader import JournalRecord
from pyjms.wire.kahadb.structures import (
    DestinationType,
    KahaCommand,
    KahaDestination,
    KahaTransactionInfo,
)

__all__ = ["Pending", "PendingMessages"]

_TOPICS: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)


class Pending(NamedTuple):
    """A message that was not consumed: the location of its record, and its subscription."""

    location: Location
    subscription: str | None


class PendingMessages:
    """Replays all records in their order and yields the pending messages. Not thread-safe."""

    def __init__(self) -> None:
        self._messages: dict[KahaDestination, dict[str, Location]] = {}
        self._waiting: dict[KahaDestination, dict[str, dict[str, None]]] = {}
        self._open: dict[KahaTransactionInfo, list[tuple[Location, KahaCommand]]] = {}
        self._handlers: dict[type[KahaCommand], Callable[[Location, Any], None]] = {
            KahaAddMessageCommand: self._add,
            KahaUpdateMessageCommand: self._update,
            KahaRemoveMessageCommand: self._remove,
            KahaCommitCommand: self._commit,
            KahaRollbackCommand: self._rollback,
            KahaRemoveDestinationCommand: self._remove_destination,
            KahaSubscriptionCommand: self._subscribe,
        }

    def feed(self, records: Iterable[JournalRecord]) -> None:
        """Apply records.

        Raises:
            KahaDBFormatError: a record is not a KahaDB command.
        """
        for record in records:
            command = decode_command(record.payload)
            handler = self._handlers.get(type(command))
            if handler is not None:
                handler(record.location, command)

    def __iter__(self) -> Iterator[Pending]:
        for destination, messages in self._messages.items():
            waiting = self._waiting.get(destination)
            if destination.type not in _TOPICS:
                for location in messages.values():
                    yield Pending(location, None)
            elif waiting:
                for subscription, names in waiting.items():
                    for name in names:
                        yield Pending(messages[name], subscription)

    def _add(self, location: Location, command: KahaAddMessageCommand) -> None:
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._add_message(location, command)

    def _add_message(self, location: Location, command: KahaAddMessageCommand) -> None:
        destination = command.destination
        if destination.type in _TOPICS:
            waiting = self._waiting.get(destination)
            if not waiting:
                return
            for names in waiting.values():
                names[command.message_id] = None
        self._messages.setdefault(destination, {})[command.message_id] = location

    def _update(self, location: Location, command: KahaUpdateMessageCommand) -> None:
        messages = self._messages.get(command.message.destination, {})
        if command.message.message_id in messages:
            messages[command.message.message_id] = location

    def _remove(self, location: Location, command: KahaRemoveMessageCommand) -> None:
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._remove_message(command)

    def _remove_message(self, command: KahaRemoveMessageCommand) -> None:
        messages = self._messages.get(command.destination, {})
        waiting = self._waiting.get(command.destination)
        if command.subscription_key is not None and waiting is not None:
            waiting.get(command.subscription_key, {}).pop(command.message_id, None)
            if any(command.message_id in names for names in waiting.values()):
                return
        messages.pop(command.message_id, None)

    def _commit(self, _location: Location, command: KahaCommitCommand) -> None:
        for location, operation in self._open.pop(command.transaction_info, ()):
            if isinstance(operation, KahaAddMessageCommand):
                self._add_message(location, operation)
            elif isinstance(operation, KahaRemoveMessageCommand):
                self._remove_message(operation)

    def _rollback(self, _location: Location, command: KahaRollbackCommand) -> None:
        self._open.pop(command.transaction_info, None)

    def _remove_destination(
        self, _location: Location, command: KahaRemoveDestinationCommand
    ) -> None:
        self._messages.pop(command.destination, None)
        self._waiting.pop(command.destination, None)

    def _subscribe(self, _location: Location, command: KahaSubscriptionCommand) -> None:
        waiting = self._waiting.setdefault(command.destination, {})
        messages = self._messages.get(command.destination, {})
        if command.subscription_info is None:
            for name in waiting.pop(command.subscription_key, {}):
                if not any(name in names for names in waiting.values()):
                    messages.pop(name, None)
        elif command.subscription_key not in waiting:
            initial = messages if command.retroactive else {}
            waiting[command.subscription_key] = dict.fromkeys(initial)
