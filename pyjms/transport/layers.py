"""Byte layers above a socket, such as TLS: sans-I/O objects, and the stream that applies one.

    commands <-> wire format <-> ByteLayer <-> socket

A `ByteLayer` has no socket: it converts the bytes of the socket to those of the wire format, and
back. So the same layer can be driven by the loop's callbacks, where the socket is read and written
directly, and by `LayeredStream` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyio.abc import ByteStream


class ByteLayer:
    """A conversion between the bytes of a socket and of a wire format; this one changes nothing.

    Belongs to one loop.
    """

    error: Exception | None = None
    """Why nothing more will be received; earlier data is still returned."""

    def receive(self, data: bytes) -> bytes:
        """Return the content of `data`, received from the socket; it may be empty."""
        return data

    def send(self, data: bytes | bytearray) -> bytes:
        """Return the bytes to send for `data`."""
        return bytes(data)

    @property
    def has_outgoing(self) -> bool:
        """Whether `outgoing` would return any bytes."""
        return False

    def outgoing(self) -> bytes:
        """Return the bytes that the layer itself has to send, once; often there are none."""
        return b""

    @property
    def attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The stream attributes that the layer adds to those of the socket."""
        return {}

    def close(self) -> bytes:
        """Return the bytes of an orderly close."""
        return b""


class LayeredStream(ByteStream):
    """A stream whose bytes pass through a layer. `ahead` was received with the handshake."""

    def __init__(self, raw: ByteStream, layer: ByteLayer, ahead: bytes = b"") -> None:
        self.raw = raw
        self.layer = layer
        self.ahead: bytes = ahead
        self.wake_writer: Callable[[], None] | None = None
        """Sends the layer's own bytes if a separate writer writes to the socket."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data, self.ahead = self.ahead, b""
        while not data:
            if self.layer.error is not None:
                raise self.layer.error
            data = self.layer.receive(await self.raw.receive(max_bytes))
            if self.layer.has_outgoing:
                await self._send_outgoing()
        if len(data) > max_bytes:
            data, self.ahead = data[:max_bytes], data[max_bytes:]
        return data

    async def _send_outgoing(self) -> None:
        if self.wake_writer is not None:
            self.wake_writer()
        else:
            await self.raw.send(self.layer.outgoing())

    async def send(self, item: bytes) -> None:
        await self.raw.send(self.layer.send(item))

    async def send_eof(self) -> None:
        await self.raw.send(self.layer.close())

    async def aclose(self) -> None:
        await self.raw.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {**self.raw.extra_attributes, **self.layer.attributes}


def receiver_through(
    layer: ByteLayer, wake_writer: Callable[[], None], receive: Callable[[bytes], bool]
) -> Callable[[bytes], bool]:
    """Return a function that takes chunks of the socket and passes their contents to `receive`."""

    def receive_chunk(data: bytes) -> bool:
        content = layer.receive(data)
        if layer.has_outgoing:
            wake_writer()
        read_on = receive(content) if content else True
        if layer.error is not None:
            raise layer.error
        return read_on

    return receive_chunk
