"""Cipher suites by Java's names (`TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`) and OpenSSL's names."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable

__all__ = ["check_cipher_suites", "openssl_ciphers", "uses_tls_1_3"]

_TLS_1_3 = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The TLS 1.3 cipher suites; Python's ssl module cannot select among them."""
_REPLACEMENTS = (
    (re.compile(r"^(?:TLS|SSL)_"), ""),
    (re.compile(r"^RSA_WITH_"), ""),
    (re.compile(r"_WITH_"), "-"),
    (re.compile(r"AES_(\d+)"), r"AES\1"),
    (re.compile(r"_CBC_"), "-"),
    (re.compile(r"(CHACHA20_POLY1305)_SHA256"), r"\1"),
    (re.compile(r"_"), "-"),
)


def _openssl_name(name: str) -> str:
    if not name.startswith(("TLS_", "SSL_")):
        return name
    for pattern, replacement in _REPLACEMENTS:
        name = pattern.sub(replacement, name)
    return name


def openssl_ciphers(names: Iterable[str]) -> str:
    """Return the TLS 1.2 suites among `names` in OpenSSL's format, "" if there are none."""
    return ":".join(_openssl_name(name) for name in names if name not in _TLS_1_3)


def uses_tls_1_3(names: Iterable[str]) -> bool:
    """Return whether `names` has cipher suites of TLS 1.3."""
    return not _TLS_1_3.isdisjoint(names)


def check_cipher_suites(names: tuple[str, ...]) -> None:
    """Check that the system knows each of `names`.

    Raises:
        ValueError: it does not, or only some of the TLS 1.3 suites are named.
    """
    if not names:
        raise ValueError("write the names of cipher suites, separated by commas")
    chosen = _TLS_1_3.intersection(names)
    if chosen and chosen != _TLS_1_3:
        raise ValueError(
            "Python cannot choose among the cipher suites of TLS 1.3: name all of "
            f"{', '.join(sorted(_TLS_1_3))}, or none to use TLS 1.2 only"
        )
    for name in names:
        if name not in _TLS_1_3:
            _check_known(name)


def _check_known(name: str) -> None:
    # OpenSSL lists, such as DEFAULT:!SHA1, are refused: they would hide what is allowed
    candidate = _openssl_name(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.set_ciphers(candidate)
    except ssl.SSLError:
        known = False
    else:
        known = any(each["name"] == candidate for each in context.get_ciphers())
    if not known:
        raise ValueError(f"the cipher suite '{name}' is not known to {ssl.OPENSSL_VERSION}")
