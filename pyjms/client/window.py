"""How much a producer may have sent asynchronously before the broker had room for it. (N4)"""

from __future__ import annotations

import anyio

__all__ = ["ProducerWindow"]


class ProducerWindow:
    """Bytes sent and not acknowledged by ProducerAck."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.usage = 0
        self._room: anyio.Event | None = None

    async def wait_for_space(self) -> None:
        """Wait while the window is full. Cancellable: then nothing is sent."""
        while self.usage >= self.size > 0:
            if self._room is None:
                self._room = anyio.Event()
            await self._room.wait()

    def increase(self, size: int) -> None:
        """Count what was sent."""
        self.usage += size

    def decrease(self, size: int) -> None:
        """Take the broker's word that it has room for `size` bytes again."""
        self.usage = max(0, self.usage - size)
        if self.usage < self.size:
            self.open()

    def open(self) -> None:
        """Wake who waits."""
        room, self._room = self._room, None
        if room is not None:
            room.set()
