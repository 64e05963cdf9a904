"""TLS as a byte layer: OpenSSL with memory BIOs, without a socket."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
from anyio.streams.tls import TLSAttribute

from pyjms.transport.tls.failures import tls_failure

__all__ = ["TlsLayer"]

_READ = 65536


class TlsLayer:
    """One connection's TLS. `remote` names the peer in error messages."""

    def __init__(
        self, context: ssl.SSLContext, remote: str, *, server_name: str | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.server_side: bool = context.protocol == ssl.PROTOCOL_TLS_SERVER
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, self.server_side, server_name)
        self.remote = remote
        self.error: Exception | None = None
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
