"""TLS over a connected stream, for both sides: the handshake, the byte layer after it, and errors.

The time of the handshake is limited, and so are the bytes that the peer may send before it is
complete. After a failure the peer gets time to read the alert, which would be lost if the socket
were closed at once.

Tables give the meaning of OpenSSL's errors for the client and the broker, and what to do about
them: by the code of a failed verification, and by OpenSSL's reason, which also stands for an alert
sent by the peer. An error that is in no table keeps OpenSSL's text.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

from pyjms.errors import ConnectionFailedException, UnusedConnectionException
from pyjms.runtime import clock as _clock
from pyjms.transport.layers import ByteLayer, LayeredStream
from pyjms.transport.tls.context import TlsContext


class _Words(NamedTuple):
    reason: str
    hint: str = ""


_HOST = _Words(
    "the broker's certificate is not for this host",
    "use the certificate's host name in the URL, set it as ssl.serverName, or set "
    "socket.verifyHostName=false",
)
_TRUST_CLIENT = "set ssl.trustStore to a file with the certificate of its issuer"
_TRUST_BROKER = "the connector's ssl.trustStore contains the issuers that it trusts"
_UNKNOWN_CA = "was not issued by an authority that this side trusts"
_VERIFICATION: dict[int, str] = {
    9: "is not valid yet",
    10: "has expired",
    18: "is self-signed and not trusted",
    19: "has a self-signed issuer that is not trusted",
    20: _UNKNOWN_CA,
    21: _UNKNOWN_CA,
    23: "was revoked",
    24: "was issued by a certificate that may not issue any",
    26: "may not be used for this side of a connection",
    79: "was issued by a certificate that may not issue any",
}
"""The problem of the peer's certificate, by OpenSSL's X509_V_ERR code."""
_TRUST_MATTERS = frozenset({18, 19, 20, 21})
_HOST_MISMATCH = frozenset({62, 64})
_NO_TLS_BROKER = _Words(
    "the broker does not use TLS on this port", "connect with tcp://, or to the ssl:// port"
)
_NO_TLS_CLIENT = _Words(
    "the client does not use TLS", "it must connect with ssl:// instead of tcp://"
)
_NO_VERSION = _Words(
    "the two sides have no TLS version in common", "see enabledProtocols and ssl.minimumVersion"
)
_NO_SUITE = _Words(
    "the two sides have no cipher suite in common",
    "see enabledCipherSuites and enabledProtocols on both sides",
)
_AT_CLIENT: dict[str, _Words] = {
    "WRONG_VERSION_NUMBER": _NO_TLS_BROKER,
    "UNKNOWN_PROTOCOL": _NO_TLS_BROKER,
    "RECORD_LAYER_FAILURE": _NO_TLS_BROKER,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _Words(
        "the broker refused the handshake",
        "it may require a client certificate (ssl.keyStore), or have no cipher suite in common",
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _Words(
        "the broker requires a client certificate", "set it as ssl.keyStore"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": _Words(
        "the broker does not trust the issuer of the client's certificate", _TRUST_BROKER
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _Words(
        "the broker refused the client's certificate: it has expired", "renew it"
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _Words(
        "the broker refused the client's certificate", _TRUST_BROKER
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": _Words(
        "the broker refused the client's certificate, or requires one",
        "set a certificate that it trusts as ssl.keyStore",
    ),
    "TLSV1_UNRECOGNIZED_NAME": _Words(
        "the broker has no certificate for this host name", "see ssl.serverName"
    ),
}
_AT_BROKER: dict[str, _Words] = {
    "WRONG_VERSION_NUMBER": _NO_TLS_CLIENT,
    "UNKNOWN_PROTOCOL": _NO_TLS_CLIENT,
    "RECORD_LAYER_FAILURE": _NO_TLS_CLIENT,
    "HTTP_REQUEST": _Words("the client speaks HTTP", "this port is for OpenWire over TLS"),
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "NO_SHARED_CIPHER": _NO_SUITE,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _Words(
        "the client sent no certificate", "the connector requires one (needClientAuth)"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": _Words(
        "the client does not trust the issuer of the broker's certificate", _TRUST_CLIENT
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _Words(
        "the client refused the broker's certificate: it has expired", "renew it"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": _Words(
        "the client refused the broker's certificate",
        "usually it is for another host than that in the client's URL",
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _Words(
        "the client refused the broker's certificate",
        "it does not trust the issuer, or the certificate is for another host",
    ),
}


def tls_failure(
    error: ssl.SSLError, remote: str, *, server_side: bool
) -> ConnectionFailedException:
    """Return the exception for an error of OpenSSL in a connection with `remote`."""
    words = _words_of(error, server_side)
    failure = ConnectionFailedException(f"{remote}: TLS: {words.reason}", hint=words.hint)
    failure.__cause__ = failure.linked_exception = error
    return failure


def closed_early(
    remote: str, *, server_side: bool, is_unused: bool = False
) -> ConnectionFailedException:
    """Return the exception for a peer that closed the connection during the handshake.

    `is_unused`: it had not sent anything.
    """
    if server_side and is_unused:
        return UnusedConnectionException(
            f"{remote}: the client closed the connection before the TLS handshake"
        )
    if server_side:
        return ConnectionFailedException(
            f"{remote}: TLS: the client closed the connection during the handshake",
            hint="usually because it does not trust the broker's certificate",
        )
    return ConnectionFailedException(
        f"{remote}: TLS: the broker closed the connection during the handshake",
        hint="check that the port uses TLS, and see the broker's log",
    )


def _words_of(error: ssl.SSLError, server_side: bool) -> _Words:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _verification(error, server_side)
    found = (_AT_BROKER if server_side else _AT_CLIENT).get(error.reason or "")
    return found or _Words((error.reason or str(error)).lower().replace("_", " "))


def _verification(error: ssl.SSLCertVerificationError, server_side: bool) -> _Words:
    code = error.verify_code
    if code in _HOST_MISMATCH:
        return _Words(f"{_HOST.reason}: {error.verify_message}", _HOST.hint)
    whose = "the client's" if server_side else "the broker's"
    what = _VERIFICATION.get(code, f"is not accepted: {error.verify_message}")
    hint = ""
    if code in _TRUST_MATTERS:
        hint = _TRUST_BROKER if server_side else _TRUST_CLIENT
    return _Words(f"{whose} certificate {what}", hint)


_READ = 65536


class TlsLayer(ByteLayer):
    """One connection's TLS. `remote` names the peer in error messages."""

    def __init__(
        self, context: ssl.SSLContext, remote: str, *, server_name: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.server_side: bool = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, self.server_side, server_name)
        self.remote = remote
        self._peer_certificate: dict[str, Any] | None = None

    def handshake(self, data: bytes) -> bool:
        """Continue the handshake with `data` of the peer; return whether it is complete.

        Raises:
            ssl.SSLError: it failed; `outgoing` has the alert for the peer.
        """
        self._incoming.write(data)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self._peer_certificate = self._ssl.getpeercert()  # later errors would hide it
        return True

    def receive(self, data: bytes) -> bytes:
        self._incoming.write(data)
        found: list[bytes] = []
        try:
            while self.error is None and (self._incoming.pending or self._ssl.pending()):
                if content := self._ssl.read(_READ):
                    found.append(content)
                else:  # the peer has ended TLS; bytes after that are not trusted
                    self.error = anyio.EndOfStream()
        except ssl.SSLWantReadError:
            pass  # the rest of a record has not arrived yet
        except ssl.SSLError as error:
            self.error = tls_failure(error, self.remote, server_side=self.server_side)
        return found[0] if len(found) == 1 else b"".join(found)

    def send(self, data: bytes | bytearray) -> bytes:
        try:
            self._ssl.write(data)
        except ssl.SSLError as error:  # usually after an error in `receive`, which says more
            raise self.error or tls_failure(
                error, self.remote, server_side=self.server_side
            ) from error
        return self._outgoing.read()

    @property
    def has_outgoing(self) -> bool:
        return self._outgoing.pending > 0

    def outgoing(self) -> bytes:
        return self._outgoing.read()

    @property
    def attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {TLSAttribute.peer_certificate: lambda: self._peer_certificate}

    def close(self) -> bytes:
        with suppress(ssl.SSLError):  # raised because the peer's close_notify is not awaited
            self._ssl.unwrap()
        return self._outgoing.read()


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
