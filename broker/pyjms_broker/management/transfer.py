"""Moving, copying and removal of a queue's messages.

A moved message is sent through the whole filter chain, with its original destination set and the
redelivery counter 0, and is removed from its queue's store only after the copy is stored. Messages
that are dispatched to a consumer stay. (ActiveMQ BrokerSupport.resend,
Queue.moveMatchingMessagesTo)
Duplicate detection does not drop a copy even if the target had the message before: the copy has a
new id, which only keeps the text of the old one, and no duplicate id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from pyjms import _clock
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.copying import copy_for_destination, remove_duplicate_id
from pyjms_broker.api.message import MessageReference
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.messages import selected
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.topic.topic import Topic

__all__ = ["UNLIMITED", "copy", "copy_matching", "find", "move", "move_matching", "remove_matching"]

UNLIMITED: Final = (1 << 31) - 1
_AT_ONCE: Final = 500
"""The number of messages that are handled before other tasks run."""


def find(queue: Queue, message_id: str) -> MessageReference | None:
    """Return the message with this id; None if there is none."""
    return next((r for r in queue.messages() if str(r.message_id) == message_id), None)


def _is_free(reference: MessageReference) -> bool:
    return reference.owner is None and not reference.acked and not reference.dropped


def _check_target(queue: Queue, target: Destination) -> None:
    if target == queue.destination:
        raise InvalidDestinationException(
            f"Messages of {queue} cannot be moved or copied to the same queue",
            hint="name another destination",
        )


def _send_copy(
    tree: ManagementContext, reference: MessageReference, target: Destination
) -> Completion:
    message = reference.message
    sent = copy_for_destination(message, target, message.destination)
    sent.message_id = tree.next_message_id()
    if not _has(tree, target, reference.message_id):
        sent.message_id.text_view = str(reference.message_id)
    remove_duplicate_id(sent)
    sent.original_transaction_id = message.transaction_id
    sent.transaction_id = None
    sent.redelivery_counter = 0
    sent.raw = None
    return tree.send(sent)


def _has(tree: ManagementContext, target: Destination, message_id: MessageId) -> bool:
    """Return whether the target's store has the id, since stores may compare only its text."""
    known = tree.destinations().get(target)
    store = (
        known.base.store if known is not None and isinstance(known.base, Queue | Topic) else None
    )
    return store is not None and store.get_message(message_id) is not None


def _check_not_leased(queue: Queue) -> None:
    if queue.reader is not None and queue.reader.is_leased:
        raise IllegalStateException(
            f"{queue} is leased to a range reader: nothing can be removed from it",
            hint="stop the reader first",
        )


def move(
    tree: ManagementContext, queue: Queue, reference: MessageReference, target: Destination
) -> Completion | None:
    """Move one message; completed when the copy is stored. None if it is dispatched.

    Raises:
        InvalidDestinationException: the target is the same queue.
        JMSException: the copy was refused; the message stays in its queue.
    """
    _check_target(queue, target)
    _check_not_leased(queue)
    reference = queue.contents.in_memory(reference) or reference
    if not _is_free(reference):
        return None
    stored = reference.dead_letter = _send_copy(tree, reference, target)
    queue.remove_message(tree.client, reference)
    queue.forget_duplicate(reference)
    return stored


def copy(
    tree: ManagementContext, queue: Queue, reference: MessageReference, target: Destination
) -> Completion:
    """Send a copy of one message; completed when it is stored.

    Raises:
        InvalidDestinationException: the target is the same queue.
        JMSException: the copy was refused.
    """
    _check_target(queue, target)
    return _send_copy(tree, reference, target)


async def move_matching(
    tree: ManagementContext,
    queue: Queue,
    selector: str | None,
    target_of: Callable[[MessageReference], Destination | None],
    maximum: int = UNLIMITED,
) -> int:
    """Move at most `maximum` matching messages; return their number once they are stored.

    `target_of` returns None for a message that stays. A cancellation takes effect between two
    messages.

    Raises:
        InvalidSelectorException: the selector is not valid.
        JMSException: a copy was refused, or not stored; messages before it are moved.
    """

    def free() -> Iterator[MessageReference]:
        return (
            reference
            for reference in selected(queue, selector, tree)
            if _is_free(reference) and target_of(reference) is not None
        )

    def act(reference: MessageReference) -> Completion | None:
        target = target_of(reference)
        return None if target is None else move(tree, queue, reference, target)

    return await _in_pages(free, act, maximum)


async def copy_matching(
    tree: ManagementContext, queue: Queue, selector: str | None, target: Destination, maximum: int
) -> int:
    """Copy at most `maximum` matching messages; return their number once they are stored.

    Raises:
        InvalidSelectorException: the selector is not valid.
        JMSException: a copy was refused, or not stored.
    """
    found = selected(queue, selector, tree)
    return await _in_pages(
        lambda: found, lambda reference: copy(tree, queue, reference, target), maximum
    )


async def remove_matching(
    tree: ManagementContext, queue: Queue, selector: str | None, maximum: int
) -> int:
    """Remove at most `maximum` matching undispatched messages; return their number.

    Raises:
        InvalidSelectorException: the selector is not valid.
        IllegalStateException: the queue is leased to a range reader.
    """
    _check_not_leased(queue)
    return await _in_pages(
        lambda: (each for each in selected(queue, selector, tree) if _is_free(each)),
        lambda each: COMPLETED if queue.remove_message(tree.client, each) else None,
        maximum,
    )


async def _in_pages(
    candidates: Callable[[], Iterator[MessageReference]],
    act: Callable[[MessageReference], Completion | None],
    maximum: int,
) -> int:
    """Call `act` for messages, page by page; return the number of completions that it returned."""
    count = 0
    while count < maximum:
        page = list(islice(candidates(), min(_AT_ONCE, maximum - count)))
        done = [stored for stored in map(act, page) if stored is not None]
        await wait_for(all_of(done))
        if not done:
            break
        count += len(done)
        await _clock.sleep(0)  # a long queue must not block the event loop
    return count
