"""Where a lone sender's records are written: on the loop or in the thread, by what it takes.

The loop saves two changes of threads, 1.4 times as fast on a machine that has time. A busy
machine may give the thread its turn sooner, and a slow disk must not stop the loop. So both
ways are measured: the quicker one is used, the other tried now and then.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LoneSenderChoice"]

_QUICK: Final = 0.002  # seconds; what takes longer never runs on the loop
_SAVED: Final = 1.25  # what the loop saves beside: two of its passes, and the change of threads
_TRY_OTHER: Final = 64  # jobs


class LoneSenderChoice:
    """Average times of both ways, in seconds; None: not tried yet."""

    def __init__(self) -> None:
        self.loop: float | None = None
        self.thread: float | None = None
        self._jobs = 0

    def on_loop(self) -> bool:
        """Say where the next job runs."""
        self._jobs += 1
        return self._loop_is_better() != (self._jobs % _TRY_OTHER == 0)

    def took(self, on_loop: bool, seconds: float) -> None:
        """Hear what a job took, from its beginning to its end on the loop."""
        average = self.loop if on_loop else self.thread
        # what is tried seldom has to be believed sooner
        weight = 0.125 if on_loop == self._loop_is_better() else 0.5
        average = seconds if average is None else average + weight * (seconds - average)
        if on_loop:
            self.loop = average
        else:
            self.thread = average

    def _loop_is_better(self) -> bool:
        loop, thread = self.loop, self.thread
        return loop is None or (loop < _QUICK and (thread is None or loop <= _SAVED * thread))
