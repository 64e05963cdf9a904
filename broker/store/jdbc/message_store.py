"""The messages of one queue; what a topic's store shares with it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Final

from broker.api.completion import Completion
from broker.api.context import ConnectionContext
from broker.api.message import Position, StoredMessage
from broker.store.jdbc.core import Core, split_id
from broker.store.jdbc.operations import AddMessage, RemoveAll, UpdateMessage
from broker.store.jdbc.overlay import Overlay
from broker.store.jdbc.work import Addition, Removal, Work
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.openwire.commands import MessageId

if TYPE_CHECKING:
    from broker.api.message import MessageReference
    from broker.store.jdbc.transactions import JDBCTransactionStore

__all__ = ["JDBCMessageStore"]

_SMALLEST_PAGE: Final = 100
_HIGHEST_PRIORITY: Final = 9


class JDBCMessageStore:
    """ActiveMQ: JDBCMessageStore."""

    def __init__(
        self,
        core: Core,
        transactions: JDBCTransactionStore,
        destination: Destination,
        prioritized: bool,
        base: int,
        epoch: int,
    ) -> None:
        """`base` is the ID before its first message's."""
        self.core = core
        self.base = base
        self._epoch = epoch
        self.destination = destination
        self.container = destination.qualified_name
        self.prioritized = prioritized
        self.overlay = Overlay()
        self._transactions = transactions
        self._count = 0
        self._size = 0
        self._last_id = base
        self._sequences: OrderedDict[str, int] = OrderedDict()
        self._duplicates: OrderedDict[str, int] | None = None
        self.is_removed = False
        """Whether the destination was removed: this takes nothing more, another one may."""

    def load(self, count: int, size: int, last_id: int) -> None:
        """Begin with what the tables have."""
        self._count, self._size, self._last_id = count, size, last_id

    # -- what the broker asks for

    def add_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        def on_position(position: Position) -> None:
            reference.position = position

        reference.position = None
        work = Addition(self, reference.message, reference.message_id, reference.size, on_position)
        answer = self._do(context, work)
        if answer is None and context.transaction is None and reference.position is None:
            return self.core.submit((), lambda _: None)  # done when the one that is here is safe
        return answer

    def mark_visible(self, reference: MessageReference) -> None:
        if reference.position is not None:
            self.overlay.unshown.discard(self.id_at(reference.position))

    def remove_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        position = reference.position or self._find(reference.message_id)
        if position is None:
            return None
        return self._do(context, Removal(self, self.id_at(position), reference.size))

    def update_message(self, reference: MessageReference) -> Completion | None:
        position = self._find(reference.message_id)
        if position is None:
            return None
        frame = encode_message(reference.message)
        number = self.id_at(position)
        frames = self.overlay.frames
        frames[number] = frame

        def done(_: Exception | None) -> None:
            if frames.get(number) is frame:
                del frames[number]

        operation = UpdateMessage(self.container, number, reference.message.expiration, frame)
        return self.core.submit((operation,), done, len(frame))

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        position = self._find(message_id)
        return None if position is None else next(iter(self._load([position])), None)

    def next_messages(
        self, after: Position | None, limit: int, skip: Container[Position] = ()
    ) -> list[StoredMessage]:
        self._settle()
        page = self._page_statement
        return self._page(page, {}, after, limit, skip, self.overlay.is_visible)

    def remove_all_messages(self, context: ConnectionContext) -> Completion | None:
        before = self._count, self._size
        self._count = self._size = 0
        self.overlay.clear()

        def done(error: Exception | None) -> None:
            if error is not None:
                self.correct(*before)

        return self.core.submit((RemoveAll(self.container, self._last_id),), done)

    @property
    def message_count(self) -> int:
        return self._count

    @property
    def message_size(self) -> int:
        return self._size

    @property
    def last_arrival(self) -> int:
        return self._last_id - self.base

    @property
    def epoch(self) -> int:
        return self._epoch

    # -- what works tell

    @property
    def subscribers(self) -> int:
        """How many durable subscriptions get a message that comes now."""
        return 0

    def position(self, message: AddMessage) -> Position:
        """Return where a message stands."""
        return self.position_at(message.id, message.priority)

    def has(self, message_id: MessageId, duplicate_id: str | None) -> bool:
        """Whether a message is here already, by its id or its duplicate id. (S6)"""
        producer, sequence = split_id(message_id)
        if self._has_id(message_id, producer, sequence):
            return True
        audit = self.core.audit
        if audit is not None and audit.seen(self.container, producer, sequence):
            return True
        return duplicate_id is not None and duplicate_id in self._duplicate_ids()

    @property
    def is_wanted(self) -> bool:
        """Whether anybody will ever ask for a message that comes now."""
        return True

    def next_id(self) -> int:
        """Return the ID of the next message."""
        self._last_id += 1
        return self._last_id

    def pass_over(self, message: AddMessage) -> None:
        """Remember the numbers of a message that nobody wants."""
        self.core.note(message.producer, message.sequence, message.broker_sequence)

    def add(self, message: AddMessage) -> None:
        """Take a message that was given its ID."""
        self.core.note(message.producer, message.sequence, message.broker_sequence)
        self._count += 1
        self._size += message.size
        self.overlay.add(message)
        if message.duplicate_id is not None:
            duplicates = self._duplicate_ids()
            duplicates[message.duplicate_id] = message.id
            if len(duplicates) > self.core.settings.duplicate_id_window:
                duplicates.popitem(last=False)

    def added(self, message: AddMessage, error: Exception | None) -> None:
        """The message is in the table, or could not be stored."""
        if error is None:
            self.overlay.forget_added(message.id)
            return
        self.correct(-1, -message.size)
        self.overlay.forget_added(message.id)
        self.overlay.unshown.discard(message.id)
        if message.duplicate_id is not None:
            self._duplicate_ids().pop(message.duplicate_id, None)
        if self.core.audit is not None:
            self.core.audit.forget(self.container, message.producer, message.sequence)

    def remove(self, message_id: int, size: int) -> bool:
        """Show readers no more of a message; False: it is gone already."""
        if message_id in self.overlay.removed:
            return False
        self.overlay.remove(message_id)
        self._count -= 1
        self._size -= size
        return True

    def removed(self, message_id: int, size: int, error: Exception | None) -> None:
        """The message is no longer in the table, or still."""
        self.overlay.removed.discard(message_id)
        self.overlay.hidden.discard(message_id)
        if error is not None:
            self.correct(1, size)

    def correct(self, count: int, size: int) -> None:
        """Add what the database knew better."""
        self._count = max(0, self._count + count)
        self._size = max(0, self._size + size) if self._count else 0

    def drop(self, count: int) -> None:
        """So many messages are gone; their share of the size goes with them."""
        self.correct(-count, -(self._size * count // self._count if self._count else 0))

    # -- inside

    def _do(self, context: ConnectionContext, work: Work) -> Completion | None:
        transaction = context.transaction
        if transaction is not None:
            self._transactions.add(transaction.xid, work)
            return None
        operations = work.commit()
        if not operations:
            return None
        return self.core.submit(operations, work.done, work.size)

    def position_at(self, message_id: int, priority: int) -> Position:
        """Return where the message with an id stands."""
        level = _HIGHEST_PRIORITY - priority if self.prioritized else 0
        return Position(level, message_id - self.base)

    def id_at(self, position: Position) -> int:
        """Return the ID of the message that stands there."""
        return self.base + position.arrival

    def _has_id(self, message_id: MessageId, producer: str, sequence: int) -> bool:
        """Ask the table only where the producer's numbers do not rise."""
        known = self._sequences.pop(producer, None)
        if known is None:
            self._settle()
            statement = self.core.statements.last_sequence_in_container
            stored = self.core.read(statement, producer=producer, at=self.container)[0][0]
            known = -1 if stored is None else stored
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.core.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)
        if self.overlay.find(producer, sequence) is not None:
            return True
        return sequence <= known and self._find(message_id) is not None

    def _duplicate_ids(self) -> OrderedDict[str, int]:
        """The queue's window, read when first needed."""
        duplicates = self._duplicates
        if duplicates is None:
            core = self.core
            limit = core.settings.duplicate_id_window
            rows = core.read(core.statements.duplicates, at=self.container, limit=limit)
            duplicates = OrderedDict((text, number) for number, text in reversed(rows))
            self._duplicates = duplicates
        return duplicates

    def duplicates_kept_from(self) -> int | None:
        """The id of the first message whose duplicate id is remembered, None if none is."""
        if not self._duplicates:
            return None
        return next(iter(self._duplicates.values()))

    def _find(self, message_id: MessageId) -> Position | None:
        """Return where a message stands that is not gone; one that was not shown, too."""
        producer, sequence = split_id(message_id)
        unwritten = self.overlay.find(producer, sequence)
        if unwritten is not None:
            return self.position(unwritten)
        self._settle()
        rows = self.core.read(
            self._find_statement, producer=producer, sequence=sequence, at=self.container
        )
        gone = self.overlay.removed | self.overlay.hidden
        for number, priority in rows:
            if number not in gone:
                return self.position_at(number, priority)
        return None

    def _settle(self) -> None:
        """Make sure that the tables can be read."""
        self.core.settle(self.container)

    @property
    def _page_statement(self) -> Any:
        return self.core.statements.queue_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.core.statements.find_message

    def _page(
        self,
        statement: Any,
        parameters: dict[str, object],
        after: Position | None,
        limit: int,
        skip: Container[Position],
        visible: Callable[[int], bool],
    ) -> list[StoredMessage]:
        parameters = {**parameters, "at": self.container}
        found: list[Position] = []
        start = after or Position(0, 0)
        for level in range(start.level, _HIGHEST_PRIORITY + 1 if self.prioritized else 1):
            first = Position(level, start.arrival if level == start.level else 0)
            wanted = limit - len(found)
            if wanted <= 0:
                break
            found += self._page_of_level(statement, parameters, first, wanted, skip, visible)
        return self._load(found)

    def _page_of_level(
        self,
        statement: Any,
        parameters: dict[str, object],
        after: Position,
        wanted: int,
        skip: Container[Position],
        visible: Callable[[int], bool],
    ) -> list[Position]:
        level = after.level
        if self.prioritized:
            parameters = {**parameters, "level": _HIGHEST_PRIORITY - level}
        unwritten = self.overlay.added
        size = min(max(wanted, _SMALLEST_PAGE), self.core.settings.max_rows)
        found: list[Position] = []
        last = self.id_at(after)
        while len(found) < wanted:
            rows = self.core.read(statement, after=last, limit=size, **parameters)
            for number, _ in rows:
                position = Position(level, number - self.base)
                if number not in unwritten and visible(number) and position not in skip:
                    found.append(position)
            if len(rows) < size:
                break
            last = rows[-1][0]
        left = wanted
        for message in self.overlay.after(self.id_at(after)):
            position = self.position(message)
            if position.level == level and visible(message.id) and position not in skip:
                found.append(position)
                left -= 1
                if left == 0:
                    break
        return sorted(found)[:wanted]

    def _load(self, positions: list[Position]) -> list[StoredMessage]:
        ids = [self.id_at(position) for position in positions]
        added, updated = self.overlay.added, self.overlay.frames
        frames = {i: added[i].frame for i in ids if i in added}
        frames.update({i: updated[i] for i in ids if i in updated})
        missing = [i for i in ids if i not in frames]
        step = min(self.core.settings.max_rows, 1000)
        for start in range(0, len(missing), step):
            chunk = missing[start : start + step]
            rows = self.core.read(self.core.statements.load_messages, ids=chunk)
            frames.update(tuple(row) for row in rows)
        return [
            StoredMessage(position, decode_message(bytes(frames[i])))
            for position, i in zip(positions, ids, strict=True)
            if i in frames
        ]
