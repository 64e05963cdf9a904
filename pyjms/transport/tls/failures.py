"""The meaning of OpenSSL's errors for the client and the broker, and what to do about them.

Tables: by the code of a failed verification, and by OpenSSL's reason, which also stands for an
alert sent by the peer. An error that is in no table keeps OpenSSL's text.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import ClosedUnused

__all__ = ["closed_early", "tls_failure"]


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
        return ClosedUnused(f"{remote}: the client closed the connection before the TLS handshake")
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
