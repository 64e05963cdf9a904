"""Removes messages from their store after their dead letters, which other journals store.

One journal keeps its records in order: after a crash there is both, or neither. Of two journals
the one with the removal may be durable first, and the dead letter would be lost.
(activemq-persistence K25)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import MessageReference, OperationContext, Position

__all__ = ["DeadLetterOrdering"]


class DeadLetterOrdering:
    """Messages of one queue or subscription that the store has until their letters are safe.

    Nobody has them in memory any more, and nobody may read them again.
    """

    __slots__ = ("_held", "positions")

    def __init__(self, held: set[Position] | None) -> None:
        """`held`, where it is kept, are the positions that are not read: these are among them."""
        self.positions: set[Position] = set()
        """Where they are; also those whose letters were lost and who are not back in memory."""
        self._held = held

    def remove_behind(
        self,
        dead_letter: Completion,
        context: OperationContext,
        reference: MessageReference,
        remove: Callable[[OperationContext, MessageReference], Completion | None],
    ) -> Completion | None:
        """Call `remove`, which tells the store, when the dead_letter is safe.

        A dead letter that could not be stored is the result, and nothing is removed: the message is
        there again after a restart, or when its owner takes it back into memory.
        """
        if dead_letter.done and dead_letter.error is None:
            return remove(context, reference)
        position = reference.position
        if position is not None:
            self.positions.add(position)
            if self._held is not None:
                self._held.add(position)
        removed = Completion()
        apart = OperationContext(None, context.response_required)

        def go_on(done: Completion) -> None:
            if done.error is not None:
                removed.complete(done.error)
                return
            try:
                stored = remove(apart, reference)
            except Exception as error:
                removed.complete(error)
                return
            if position is not None:
                self._has_left(position)
            if stored is None:
                removed.complete()
            else:
                stored.then(lambda told: removed.complete(told.error))

        dead_letter.then(go_on)
        return removed

    def _has_left(self, position: Position) -> None:
        self.positions.discard(position)
        if self._held is not None:
            self._held.discard(position)
