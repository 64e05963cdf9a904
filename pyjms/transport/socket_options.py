"""Options of the sockets below streams."""

from __future__ import annotations

import socket
import struct

from anyio.abc import ByteStream, SocketAttribute

from pyjms.transport.options import TcpOptions

__all__ = ["apply_options", "set_of_stream", "set_option"]

_INTERNET = (socket.AF_INET, socket.AF_INET6)


def apply_options(stream: ByteStream, options: TcpOptions) -> None:
    """Set the options of the socket below a stream, if there is one."""
    size = options.socket_buffer_size
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_size or size)
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_size or size)
    set_of_stream(stream, socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.keep_alive))
    if options.tcp_no_delay is not None:
        set_of_stream(stream, socket.IPPROTO_TCP, socket.TCP_NODELAY, int(options.tcp_no_delay))
    if options.so_linger is not None:
        on = int(options.so_linger >= 0)
        linger = struct.pack("ii", on, max(options.so_linger, 0))
        set_of_stream(stream, socket.SOL_SOCKET, socket.SO_LINGER, linger)


def set_of_stream(stream: ByteStream, level: int, option: int, value: int | bytes) -> None:
    """Set one option of the socket below a stream, if there is one."""
    raw = stream.extra(SocketAttribute.raw_socket, None)
    if raw is not None:
        set_option(raw, level, option, value)


def set_option(raw: socket.socket, level: int, option: int, value: int | bytes) -> None:
    """Set one option of a socket, unless it is closed or of another kind."""
    if raw.fileno() >= 0 and (level == socket.SOL_SOCKET or raw.family in _INTERNET):
        raw.setsockopt(level, option, value)
