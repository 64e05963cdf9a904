"""What a wire format is: bytes in, commands out, and back. No socket, no clock, no task."""

from __future__ import annotations

from typing import Protocol

from pyjms.wire.openwire.commands import Command

__all__ = ["WireFormat"]


class WireFormat(Protocol):
    """One connection's codec, both directions. Not for two threads at a time."""

    def encode(self, command: Command) -> bytes:
        """Return the whole frame of `command`.

        Raises:
            LocalProtocolError: the command cannot be written; the connection is still sound.
        """

    def encode_into(self, buffer: bytearray, command: Command) -> None:
        """Append the whole frame of `command`; after an error `buffer` is as before.

        Raises:
            LocalProtocolError: the command cannot be written; the connection is still sound.
        """

    def receive_data(self, data: bytes) -> list[Command]:
        """Take bytes as they come, in any portions, and return the commands they complete.

        Raises:
            RemoteProtocolError: the peer broke the protocol. Every later call raises too.
        """
