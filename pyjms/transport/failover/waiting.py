"""The reconnect policy: the number of passes over the brokers, and the waits between them.

Adapters for tenacity, which runs the passes. (activemq-edges F1, F8)
"""

from __future__ import annotations

from tenacity import RetryCallState

from pyjms.transport.failover.options import INFINITE, FailoverOptions

__all__ = ["ReconnectPolicy"]


class ReconnectPolicy:
    """The policy of one outage, or of the first connection."""

    def __init__(self, options: FailoverOptions, *, is_first: bool) -> None:
        self._options = options
        self.is_first = is_first
        limit = options.max_reconnect_attempts
        if is_first and options.startup_max_reconnect_attempts != INFINITE:
            limit = options.startup_max_reconnect_attempts
        self.limit = limit
        """The maximum number of passes; negative: no limit."""

    @property
    def allows_any(self) -> bool:
        """Whether at least one pass is made."""
        return self.is_first or self.limit != 0

    def delay_after(self, passes: int) -> float:
        """Return the seconds to wait after this number of failed passes."""
        options = self._options
        initial = options.initial_reconnect_delay
        steps = passes - 1 if self.is_first else passes
        if not options.use_exponential_back_off:
            return initial
        delay = initial
        for _ in range(steps):
            delay *= options.reconnect_delay_exponent
            if delay >= options.max_reconnect_delay or delay == 0:
                break
        return min(delay, max(options.max_reconnect_delay, initial))

    def wait(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait; for tenacity's argument `wait`."""
        return self.delay_after(retry_state.attempt_number)

    def stop(self, retry_state: RetryCallState) -> bool:
        """Return whether to stop; for tenacity's argument `stop`."""
        return 0 <= self.limit <= retry_state.attempt_number
