"""How far a broker sends ahead to consumers of ours, said in the queue's options."""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Queue

__all__ = ["by_pages", "one_by_one"]

_OPTION: Final = "consumer.prefetchSize"
_PAGE: Final = 200


def by_pages(queue: Queue) -> Queue:
    """Return the queue for a consumer that takes many messages in one transaction.

    ActiveMQ pages 200 messages in (`maxPageSize`) and further ones when it hears of deliveries,
    which is at half the prefetch: with the default of 1000 a transaction never gets more.
    """
    return _with_prefetch(queue, _PAGE)


def one_by_one(queue: Queue) -> Queue:
    """Return the queue for a consumer that asks for each message: "none" is a certain answer."""
    return _with_prefetch(queue, 0)


def _with_prefetch(queue: Queue, size: int) -> Queue:
    if _OPTION in queue.options:
        return queue  # the user's own choice
    found = Queue(queue.physical_name)
    found.options = {**queue.options, _OPTION: str(size)}
    return found
