"""What a journal's records leave: messages added and not removed, transactions minded.

A local transaction counts from its commit on, a prepared one as well; what was never committed was
never there. A topic's message stays for each durable subscription that has not acknowledged
it. (persistence K15, K22, K31)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

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
    """A message that is still there: the record that has it, and for which subscription."""

    location: Location
    subscription: str | None


class PendingMessages:
    """Fed with all records in their order, it knows what is pending. One user at a time."""

    def __init__(self) -> None:
        self._messages: dict[KahaDestination, dict[str, Location]] = {}
        self._waiting: dict[KahaDestination, dict[str, dict[str, None]]] = {}
        self._open: dict[KahaTransactionInfo, list[tuple[Location, KahaCommand]]] = {}

    def feed(self, records: Iterable[JournalRecord]) -> None:
        """Take records in.

        Raises:
            KahaDBFormatError: a record is no command of KahaDB's.
        """
        for record in records:
            command = decode_command(record.payload)
            step = _STEPS.get(type(command))
            if step is not None:
                step(self, record.location, command)

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

    # one step a kind of record
    def _add(self, location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaAddMessageCommand)
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._added(location, command)

    def _added(self, location: Location, command: KahaAddMessageCommand) -> None:
        destination = command.destination
        if destination.type in _TOPICS:
            waiting = self._waiting.get(destination)
            if not waiting:
                return
            for names in waiting.values():
                names[command.message_id] = None
        self._messages.setdefault(destination, {})[command.message_id] = location

    def _update(self, location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaUpdateMessageCommand)
        messages = self._messages.get(command.message.destination, {})
        if command.message.message_id in messages:
            messages[command.message.message_id] = location

    def _remove(self, location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaRemoveMessageCommand)
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._removed(command)

    def _removed(self, command: KahaRemoveMessageCommand) -> None:
        messages = self._messages.get(command.destination, {})
        waiting = self._waiting.get(command.destination)
        if command.subscription_key is not None and waiting is not None:
            waiting.get(command.subscription_key, {}).pop(command.message_id, None)
            if any(command.message_id in names for names in waiting.values()):
                return
        messages.pop(command.message_id, None)

    def _commit(self, _location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaCommitCommand)
        for location, operation in self._open.pop(command.transaction_info, ()):
            if isinstance(operation, KahaAddMessageCommand):
                self._added(location, operation)
            elif isinstance(operation, KahaRemoveMessageCommand):
                self._removed(operation)

    def _rollback(self, _location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaRollbackCommand)
        self._open.pop(command.transaction_info, None)

    def _remove_destination(self, _location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaRemoveDestinationCommand)
        self._messages.pop(command.destination, None)
        self._waiting.pop(command.destination, None)

    def _subscribe(self, _location: Location, command: KahaCommand) -> None:
        assert isinstance(command, KahaSubscriptionCommand)
        waiting = self._waiting.setdefault(command.destination, {})
        messages = self._messages.get(command.destination, {})
        if command.subscription_info is None:
            for name in waiting.pop(command.subscription_key, {}):
                if not any(name in names for names in waiting.values()):
                    messages.pop(name, None)
        elif command.subscription_key not in waiting:
            there = messages if command.retroactive else {}
            waiting[command.subscription_key] = dict.fromkeys(there)


_STEPS: Final[dict[type[KahaCommand], Callable[[PendingMessages, Location, KahaCommand], None]]] = {
    KahaAddMessageCommand: PendingMessages._add,
    KahaUpdateMessageCommand: PendingMessages._update,
    KahaRemoveMessageCommand: PendingMessages._remove,
    KahaCommitCommand: PendingMessages._commit,
    KahaRollbackCommand: PendingMessages._rollback,
    KahaRemoveDestinationCommand: PendingMessages._remove_destination,
    KahaSubscriptionCommand: PendingMessages._subscribe,
}
