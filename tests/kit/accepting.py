"""The accepting end of a socket in a test."""

from __future__ import annotations

from anyio.abc import SocketListener, SocketStream
from anyio.streams.stapled import MultiListener

__all__ = ["accept"]


async def accept(multi: MultiListener[SocketStream]) -> SocketStream:
    """Accept one connection at the first address that is listened on."""
    listener = multi.listeners[0]
    assert isinstance(listener, SocketListener)
    return await listener.accept()
