"""The producer window: a limit on bytes sent before the broker acknowledges. (activemq-edges N4)"""

from __future__ import annotations

from pyjms._clock import Waiters

__all__ = ["ProducerWindow"]


class ProducerWindow:
    """Bytes sent asynchronously and not acknowledged by a ProducerAck. (activemq-edges N4)"""

    def __init__(self, size: int) -> None:
        self.size = size
        self.usage: int = 0
        self._space = Waiters()

    async def wait_for_space(self) -> None:
        """Wait while the window is full. If it is cancelled, nothing is sent."""
        if self.usage >= self.size > 0:
            await self._space.wait_while(lambda: self.usage >= self.size > 0)

    def increase(self, size: int) -> None:
        """Count `size` bytes as sent."""
        self.usage += size

    def decrease(self, size: int) -> None:
        """Count `size` bytes as acknowledged."""
        self.usage = max(0, self.usage - size)
        if self.usage < self.size:
            self.open()

    def open(self) -> None:
        """Wake all waiting sends: the window no longer applies."""
        self._space.wake()
