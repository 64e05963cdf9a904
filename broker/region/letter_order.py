"""Has a message leave its store behind its dead letter, where these lie in different journals.

One journal keeps what it was told in order: after a crash there is both, or neither. Of two
the one with the removal may be safe first, and the letter would be lost. (persistence K25)
"""

from __future__ import annotations

from collections.abc import Callable

from broker.completion import Completion
from broker.context import ConnectionContext
from broker.region.message import MessageReference

__all__ = ["remove_behind_letter"]


def remove_behind_letter(
    context: ConnectionContext,
    reference: MessageReference,
    remove: Callable[[ConnectionContext, MessageReference], Completion | None],
) -> Completion | None:
    """Call `remove`, which tells the store, when the message's letter is safe.

    A letter that could not be stored is the answer, and nothing is removed: the message is
    there again after a restart.
    """
    letter = reference.letter
    if letter is None:
        return remove(context, reference)
    removed = Completion()
    wants_answer = context.wants_answer

    def go_on(done: Completion) -> None:
        reference.letter = None
        if done.error is not None:
            removed.complete(done.error)
            return
        outer = context.transaction, context.wants_answer
        context.transaction, context.wants_answer = None, wants_answer
        try:
            stored = remove(context, reference)
        except Exception as error:
            removed.complete(error)
            return
        finally:
            context.transaction, context.wants_answer = outer
        if stored is None:
            removed.complete()
        else:
            stored.then(lambda told: removed.complete(told.error))

    letter.then(go_on)
    return removed
