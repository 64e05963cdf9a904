"""Ordering of dead letters: a message is removed only after its dead letter is stored.

One journal keeps its records in order: after a crash it never has the removal without the dead
letter. With two journals the removal may become durable first, and a crash would then lose the
message altogether. (activemq-persistence K25)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import MessageReference, OperationContext, Position

__all__ = ["DeadLetterOrdering"]


class DeadLetterOrdering:
    """Messages of one queue or durable subscription whose dead letters are being stored.

    They are no longer in memory but still in the store, and must not be paged in.
    """

    __slots__ = ("_excluded", "positions")

    def __init__(self, excluded: set[Position] | None) -> None:
        """Also add the positions to `excluded`, if a prioritized source needs that set."""
        self.positions: set[Position] = set()
        """The positions of the messages, including those whose dead letters could not be stored
        and that have not been dispatched again."""
        self._excluded = excluded

    def entered_memory(self, position: Position | None) -> None:
        """Note that a message is in memory, where a consumer can be given it again."""
        if position is not None:
            self.positions.discard(position)
            if self._excluded is not None:
                self._excluded.add(position)

    def left_memory(self, position: Position | None) -> None:
        """Note that a message is no longer in memory; it may be paged in, unless it is one."""
        excluded = self._excluded
        if excluded is not None and position is not None and position not in self.positions:
            excluded.discard(position)

    def remove_after(
        self,
        dead_letter: Completion,
        context: OperationContext,
        reference: MessageReference,
        remove: Callable[[OperationContext, MessageReference], Completion],
    ) -> Completion:
        """Call `remove`, which changes the store, once `dead_letter` is done.

        If the dead letter cannot be stored, the result is its error and nothing is removed: the
        message is available again after a restart, or when its owner restores it to memory.
        """
        if dead_letter.done and dead_letter.error is None:
            return remove(context, reference)
        position = reference.position
        if position is not None:
            self.positions.add(position)
            if self._excluded is not None:
                self._excluded.add(position)
        removed = Completion()
        outside_transaction = OperationContext(None, context.response_required)

        def remove_now(done: Completion) -> None:
            if done.error is not None:
                removed.complete(done.error)
                return
            try:
                stored = remove(outside_transaction, reference)
            except Exception as error:
                removed.complete(error)
                return
            if position is not None:
                self._discard(position)
            stored.then(lambda result: removed.complete(result.error))

        dead_letter.then(remove_now)
        return removed

    def _discard(self, position: Position) -> None:
        self.positions.discard(position)
        if self._excluded is not None:
            self._excluded.discard(position)
