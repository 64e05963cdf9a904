"""TLS: options, SSL contexts made from them, and the layer between socket and wire format."""

from pyjms.transport.tls.context import TlsContext, shared_context
from pyjms.transport.tls.handshake import accept_tls, connect_tls
from pyjms.transport.tls.options import (
    CLIENT_TLS,
    IGNORED_OF_TLS_CLIENTS,
    SERVER_TLS,
    TLS_SCHEMES,
    TlsOptions,
    check_cipher_suites,
    read_client_tls,
    read_server_tls,
    with_tls,
)

__all__ = [
    "CLIENT_TLS",
    "IGNORED_OF_TLS_CLIENTS",
    "SERVER_TLS",
    "TLS_SCHEMES",
    "TlsContext",
    "TlsOptions",
    "accept_tls",
    "check_cipher_suites",
    "connect_tls",
    "read_client_tls",
    "read_server_tls",
    "shared_context",
    "with_tls",
]
