"""The expiry scan of a queue, which removes expired messages that are not dispatched.

(activemq-broker Q32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.region.queue.queue import Queue

__all__ = ["expire_waiting_messages"]


def expire_waiting_messages(queue: Queue) -> None:
    """Expire the expired among the first `max_expire_page_size` undispatched messages."""
    page = queue.policy.max_expire_page_size
    scanned = [reference for reference, _ in zip(queue.references, range(page), strict=False)]
    for reference in scanned:
        if (
            reference.owner is None
            and not reference.dropped
            and not reference.acked
            and _may_expire(queue, reference)
        ):
            queue.dispatcher.remove(reference)
            queue.expire(reference)
    for reference in queue.contents.first_paged_out(page - len(scanned)):
        if _may_expire(queue, reference) and queue.contents.may_be_paged_out(reference):
            queue.count_expired(reference)
            queue.remove_paged_out(reference)
    queue.dispatcher.iterate()


def _may_expire(queue: Queue, reference: MessageReference) -> bool:
    reader = queue.reader
    return reference.is_expired() and not (reader is not None and reader.keeps(reference))
