"""The log of refused messages: a line for each of the first in a burst, a summary of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

__all__ = ["RefusalLog"]

logger: Final = get_logger(__name__)

_WINDOW: Final = 2.0
"""Seconds in which refusals count as one burst."""
_LINES: Final = 3
"""The number of refusals of a burst that are logged separately."""


class RefusalLog:
    """Logs the messages that the consumers of one connection refuse. Use it on the loop."""

    def __init__(self) -> None:
        self._began = float("-inf")
        self._lines = 0
        self._others: Counter[str] = Counter()

    def report(
        self,
        text: str,
        message_id: str,
        destination: Destination,
        spawn: Callable[..., object],
    ) -> None:
        """Log `text` as a warning, or count the refusal for the summary at the end of the burst.

        The log record has `message_id` and the `destination`'s name as attributes. `spawn` starts
        the background task that logs the summary; if the task is cancelled, it logs it at once.
        """
        now = _clock.now()
        if not self._others and now - self._began > _WINDOW:
            self._began, self._lines = now, 0
        self._lines += 1
        attributes = {"message_id": message_id, "destination": destination.physical_name}
        if self._lines <= _LINES:
            logger.warning("%s", text, extra=attributes)
            return
        logger.debug("%s", text, extra=attributes)
        first = not self._others
        self._others[str(destination)] += 1
        if first:
            spawn(self._sum_up)

    async def _sum_up(self) -> None:
        try:
            await _clock.sleep(self._began + _WINDOW - _clock.now())
        finally:
            others, self._others = self._others, Counter()
            logger.warning(
                "%d more messages were refused in %.0f s and become dead letters: %s",
                others.total(),
                max(_clock.now() - self._began, 1.0),
                ", ".join(f"{count} of {name}" for name, count in others.most_common()),
            )
