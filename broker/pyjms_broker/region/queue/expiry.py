"""The look through a queue for messages whose time is over. (activemq-broker Q32)"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.region.queue.queue import Queue

__all__ = ["expire_what_is_over"]


def expire_what_is_over(queue: Queue) -> None:
    """Expire what is over among the first `max_expire_page_size` messages, that nobody has."""
    page = queue.policy.max_expire_page_size
    seen = [reference for reference, _ in zip(queue.references, range(page), strict=False)]
    for reference in seen:
        if (
            reference.owner is None
            and not reference.dropped
            and not reference.acked
            and _may_expire(queue, reference)
        ):
            queue.dispatcher.forget(reference)
            queue.expire(reference)
    for reference in queue.contents.first_outside(page - len(seen)):
        if _may_expire(queue, reference) and queue.contents.is_outside(reference):
            queue.count_expired(reference)
            queue.remove_outside(queue.broker.context, reference)
    queue.dispatcher.iterate()


def _may_expire(queue: Queue, reference: MessageReference) -> bool:
    reader = queue.reader
    return reference.is_expired() and not (reader is not None and reader.keeps(reference))
