"""The queue whose name is most like another's: a sender and its consumer may differ by a letter."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from pyjms.runtime.slices import Slices
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.region.queue import Queue

_MOST_NAMES: Final = 2000
"""The maximum number of destinations whose names are compared."""
_LONGEST_NAME: Final = 255
_CUTOFF: Final = 0.8
_NUMBERS: Final = re.compile(r"\d+")


async def similar_queue(
    tree: ManagementContext, queue: Queue, is_wanted: Callable[[Queue], bool]
) -> Queue | None:
    """Return the queue among those wanted whose name is most like that of `queue`. Cancellable."""
    name = queue.destination.physical_name
    if queue.destination.is_temporary or len(name) > _LONGEST_NAME:
        return None
    best, nearest = _CUTOFF, None
    slices = Slices()
    matcher = SequenceMatcher(None, "", name.casefold())
    for entry in tuple(islice(tree.destinations().values(), _MOST_NAMES)):
        other = entry.base
        if isinstance(other, Queue) and other is not queue and not other.destination.is_temporary:
            other_name = other.destination.physical_name
            if is_wanted(other) and not _is_meant_to_differ(name, other_name):
                matcher.set_seq1(other_name.casefold())
                if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                    ratio = matcher.ratio()
                    if ratio > best:
                        best, nearest = ratio, other
        await slices.after_item()
    return nearest


def _is_meant_to_differ(name: str, other: str) -> bool:
    """Return whether names differ by a number or by whole parts: `orders.2`, `DLQ.orders`."""
    if len(other) > _LONGEST_NAME or _NUMBERS.sub("", name) == _NUMBERS.sub("", other):
        return True
    parts, others = set(name.split(".")), set(other.split("."))
    return parts <= others or others <= parts
