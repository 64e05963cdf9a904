"""The line of messages that nobody may see before they are stored.

(activemq-persistence K13; activemq-broker Q2)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from pyjms_broker.api.completion import Completion

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["arrival_order"]

_Line: TypeAlias = "deque[tuple[MessageReference, Completion | None]]"


def arrival_order(
    enter: Callable[[MessageReference], None],
    refuse: Callable[[MessageReference, Exception], None],
) -> tuple[_Line, Callable[[MessageReference, Completion | None], None]]:
    """Return a line, and the function that puts a message at its end.

    Messages go in by `enter` in the order in which they came, each when its Completion (None:
    at once) is done; one that could not be stored goes by `refuse`. While the line has somebody
    whoever comes must go to its end.
    """
    line: _Line = deque()

    def advance(_: object = None) -> None:
        while line:
            reference, stored = line[0]
            if stored is not None and not stored.done:
                return
            line.popleft()
            if stored is None or stored.error is None:
                enter(reference)
            else:
                refuse(reference, stored.error)

    def put(reference: MessageReference, stored: Completion | None) -> None:
        line.append((reference, stored))
        if stored is None:
            advance()
        else:
            stored.then(advance)

    return line, put
