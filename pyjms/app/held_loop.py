"""Names the listener whose handler holds the application's event loop.

Nothing is done for this on a message's way: the watchdog's thread asks who it is once the loop is
held, and the code of a frame tells whose handler it belongs to. So it works on every event loop; a
handler without Python code, such as one compiled by Cython, is not found. A `def` handler has a
thread and cannot hold the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from pyjms.listener.message_listener import MessageListenerAdapter
from pyjms.runtime.logging import get_logger
from pyjms.runtime.watchdog import places, watch_loop

if TYPE_CHECKING:
    from pyjms.listener.registry import JmsListenerEndpointRegistry

logger: Final = get_logger(__name__)

_INNER: Final = ("handler", "__wrapped__", "func", "delegate", "on_message")
"""Where listeners, decorators, partial functions and objects have what they call."""


class HeldLoop:
    """Watches the running loop, which some of the listeners may hold, until `release`."""

    def __init__(self, registry: JmsListenerEndpointRegistry) -> None:
        self._registry = registry
        self._watchdog = watch_loop("the application", self._report)

    def release(self) -> None:
        """Stop watching. On the loop."""
        self._watchdog.release(self._report)

    def _report(self, frames: Sequence[FrameType], limit: float) -> bool:
        """Count the listener that has held the loop, and log it once; False: it is none."""
        listeners = [(each, set(_codes_of(each.message_listener))) for each in self._registry]
        for number, frame in enumerate(frames):
            found = [each for each, codes in listeners if frame.f_code in codes]
            if not found:
                continue
            for container in found:
                container.loop_holds += 1
            if found[0].loop_holds == 1:
                logger.warning(
                    "Listener %s has held the event loop for more than %g s, and nothing else "
                    "runs meanwhile, in %s. Await what it waits for, or write it as def: then it "
                    "has a thread. This is logged once",
                    " or ".join(each.log_name for each in found),
                    limit,
                    places(frames[: number + 1]),
                )
            return True
        return False


def _codes_of(listener: object) -> Iterator[CodeType]:
    """Yield the code of a listener and of what it calls, but none that all listeners share."""
    waiting: list[Any] = [listener]
    for each in waiting:  # which grows
        code = getattr(each, "__code__", None)
        if isinstance(code, CodeType):
            yield code
        elif isinstance(each, MessageListenerAdapter):
            waiting.append(getattr(each.delegate, each.default_listener_method, each.delegate))
            continue
        waiting += filter(None, (getattr(each, name, None) for name in _INNER))
