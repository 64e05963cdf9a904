"""The TLS handshake of both sides, over a connected stream.

Its time is limited, and so are the bytes that the peer may send before it is complete. After a
failure the peer gets time to read the alert, which would be lost if the socket were closed at once.
"""

from __future__ import annotations

import ssl
from contextlib import suppress

import anyio
from anyio.abc import ByteStream

from pyjms import _clock
from pyjms.errors import ConnectionFailedException
from pyjms.transport.layers import LayeredStream
from pyjms.transport.tls.context import TlsContext
from pyjms.transport.tls.failures import closed_early, tls_failure
from pyjms.transport.tls.layer import TlsLayer

__all__ = ["MAXIMUM_HANDSHAKE", "accept_tls", "connect_tls"]

MAXIMUM_HANDSHAKE = 256 * 1024
"""Bytes that a peer may send in a handshake; long certificate chains have 20 KiB."""
_CHUNK = 16384
_LINGER = 1.0
"""Seconds that a peer has to read the alert."""
_LINGER_BYTES = 1024 * 1024
_NO_TLS_ALERT = bytes.fromhex("15 0303 0002 02 46")
"""Fatal protocol_version alert for a client without TLS, to which OpenSSL sends no alert."""


async def connect_tls(
    raw: ByteStream, context: TlsContext, remote: str, timeout: float | None
) -> LayeredStream:
    """Encrypt a client's connection, and verify the broker's certificate.

    Raises:
        ConnectionFailedException: the handshake failed, or took more than `timeout` seconds. The
            stream is closed.
        ConfigurationException: the files of `context` cannot be used. The stream is closed.
    """
    return await _secure(raw, context, remote, timeout, context.options.server_name)


async def accept_tls(
    raw: ByteStream, context: TlsContext, remote: str, timeout: float | None
) -> LayeredStream:
    """Encrypt a connection that a broker has accepted. Raises like `connect_tls`."""
    return await _secure(raw, context, remote, timeout, None)


async def _secure(
    raw: ByteStream,
    context: TlsContext,
    remote: str,
    timeout: float | None,
    server_name: str | None,
) -> LayeredStream:
    try:
        with _clock.timeout(timeout):
            layer = TlsLayer(await context.current(), remote, server_name=server_name)
            try:
                return await _shake_hands(raw, layer)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                raise closed_early(remote, server_side=layer.server_side) from error
            except ssl.SSLError as error:
                failure = tls_failure(error, remote, server_side=layer.server_side)
                await _send_alert(raw, layer)
                raise failure from error
        raise ConnectionFailedException(
            f"{remote}: the TLS handshake was not complete within {timeout:g} s",
            hint="connectAttemptTimeout (ms) sets the limit of a connector"
            if context.server_side
            else "check that the port uses TLS; option connectionTimeout (ms) sets the limit",
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(raw)
        raise


async def _shake_hands(raw: ByteStream, layer: TlsLayer) -> LayeredStream:
    received = 0
    data = b""
    while not layer.handshake(data):
        if layer.has_outgoing:
            await raw.send(layer.outgoing())
        try:
            data = await raw.receive(_CHUNK)
        except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise closed_early(
                layer.remote, server_side=layer.server_side, is_unused=not received
            ) from error
        received += len(data)
        if received > MAXIMUM_HANDSHAKE:
            raise ConnectionFailedException(
                f"{layer.remote}: the TLS handshake has more than {MAXIMUM_HANDSHAKE} bytes"
            )
    if layer.has_outgoing:
        await raw.send(layer.outgoing())
    return LayeredStream(raw, layer, layer.receive(b""))


async def _send_alert(raw: ByteStream, layer: TlsLayer) -> None:
    """Send the alert, and wait a short time for the peer to close the connection."""
    # it has read the alert, or does not want to
    with (
        suppress(anyio.EndOfStream, anyio.BrokenResourceError, OSError),
        _clock.timeout(_LINGER),
    ):
        if alert := layer.outgoing() or (_NO_TLS_ALERT if layer.server_side else b""):
            await raw.send(alert)
        await raw.send_eof()
        discarded = 0
        while discarded < _LINGER_BYTES:
            discarded += len(await raw.receive(_CHUNK))
