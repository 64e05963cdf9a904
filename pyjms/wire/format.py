"""The interface of a wire format: bytes in, commands out, and back.

A wire format does no I/O: it holds no socket, no clock and no task, so that it can be fuzzed,
benchmarked, and shared by client and broker. The transports in `pyjms.transport` are generic
over the command type `C` and know nothing else of a protocol. What needs a clock or an
exchange of commands (handshake, heartbeats, matching responses to requests) belongs in a
`TransportFilter` around the transport, beside the protocol, not in the wire format.
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
            LocalProtocolError: the command cannot be written. `buffer` is as it was before, and
                the connection remains usable.
        """

    def receive_data(self, data: bytes) -> list[C]:
        """Return the commands that `data`, cut anywhere, completes, in order.

        Raises:
            RemoteProtocolError: the peer broke the protocol. `completed` of the error holds the
                commands of `data` that came before the fault; every later call raises again.
        """


@runtime_checkable
class SharingWireFormat(WireFormat[C], Protocol[C]):
    """A codec whose frames may have long values that need not be copied for each connection."""

    def encode_shared(self, buffer: bytearray, command: C) -> list[tuple[int, bytes]] | tuple[()]:
        """Append the frame of `command` to `buffer`, except long values.

        Returns:
            The values, in order, and the positions of `buffer` that they come before.

        Raises:
            LocalProtocolError: as for `encode_into`.
        """
