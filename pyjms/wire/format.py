"""The interface of a wire format: bytes in, commands out, and back.

A wire format does no I/O: it has no socket, no clock and no task, so that it can be fuzzed,
benchmarked, and shared by client and broker. The transports in `pyjms.transport` are generic
over the command type `C` and independent of the protocol. Features that need a clock or an exchange
of commands (handshake, heart-beats, matching responses to requests) belong in a `TransportFilter`
of the protocol, not in the wire format.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

__all__ = ["SharingWireFormat", "WireFormat"]

C = TypeVar("C")


class WireFormat(Protocol[C]):
    """The codec of one connection, in both directions. Not thread-safe."""

    def encode_into(self, buffer: bytearray, command: C) -> None:
        """Append the whole frame of `command` to `buffer`.

        Raises:
            LocalProtocolError: the command cannot be written. `buffer` is unchanged, and the
                connection remains usable.
        """

    def receive_data(self, data: bytes) -> list[C]:
        """Return the commands that `data` completes, in order; chunks may be split anywhere.

        Raises:
            RemoteProtocolError: the peer violated the protocol. `completed` of the error contains
                the commands in `data` before the violation; every later call raises again.
        """


@runtime_checkable
class SharingWireFormat(WireFormat[C], Protocol[C]):
    """A codec whose frames may have long values that need not be copied for each connection."""

    def encode_shared(self, buffer: bytearray, command: C) -> list[tuple[int, bytes]] | tuple[()]:
        """Append the frame of `command` to `buffer`, except long values.

        Returns:
            The values, in order, with the positions in `buffer` where they belong.

        Raises:
            LocalProtocolError: as for `encode_into`.
        """
