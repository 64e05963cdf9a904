"""Encrypted values of configuration files: `ENC(...)`. (activemq-edges SE3)

`pyjms broker encrypt` makes them: AES-256 in GCM mode, with a key that scrypt derives from the
password. Those of ActiveMQ's `activemq encrypt` (Jasypt: PBEWithMD5AndDES, and
PBEWithHmacSHA256AndAES_256 with a random IV) are read, too. The password comes from the
environment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException

__all__ = ["PASSWORD_VARIABLES", "decrypted", "encrypted", "is_encrypted"]

PASSWORD_VARIABLES: Final = ("PYJMS_ENCRYPTION_PASSWORD", "ACTIVEMQ_ENCRYPTION_PASSWORD")
"""Variables of the environment with the password; the first that is set counts."""
_PREFIX: Final = "v1:"
"""Of our own values; Jasypt's have no colon."""
_SALT: Final = 16
_NONCE: Final = 12
_ITERATIONS: Final = 1000
"""Of Jasypt."""
_MAXIMUM: Final = 65_536
"""Characters of a value."""


def is_encrypted(value: str) -> bool:
    """Whether a text is an encrypted value."""
    return value.startswith("ENC(") and value.endswith(")")


def encrypted(text: str, password: str) -> str:
    """Return `ENC(...)` of a text. Takes about 0.1 s.

    Raises:
        ConfigurationException: the package cryptography is absent.
    """
    salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
    cipher = _ciphers().aead.AESGCM(_scrypt_key(password, salt))
    data = salt + nonce + cipher.encrypt(nonce, text.encode(), None)
    return f"ENC({_PREFIX}{base64.b64encode(data).decode()})"


def decrypted(value: str, environ: Mapping[str, str]) -> str:
    """Return the text of an encrypted value. Takes about 0.1 s; no error contains the text.

    Raises:
        ConfigurationException: no password is set, or it is another one, or the package
            cryptography is absent.
    """
    password = next((environ[name] for name in PASSWORD_VARIABLES if environ.get(name)), None)
    if password is None:
        raise ConfigurationException(
            "A value is encrypted, ENC(...), and there is no password to decrypt it",
            hint=f"set the environment variable {PASSWORD_VARIABLES[0]}",
        )
    inner = value.removeprefix("ENC(").removesuffix(")")
    if len(inner) > _MAXIMUM:
        raise ConfigurationException(f"An encrypted value has more than {_MAXIMUM} characters")
    try:
        data = base64.b64decode(inner.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigurationException("An encrypted value, ENC(...), is damaged") from None
    ways = (_gcm,) if inner.startswith(_PREFIX) else (_jasypt_aes, _jasypt_des)
    for decrypt in ways:
        text = decrypt(data, password)
        if text is not None:
            return text
    raise ConfigurationException(
        "An encrypted value, ENC(...), cannot be decrypted",
        hint="the password is another one, or the algorithm is none of PBEWithMD5AndDES and "
        "PBEWithHmacSHA256AndAES_256; encrypt it again with pyjms broker encrypt",
    )


def _gcm(data: bytes, password: str) -> str | None:
    if len(data) < _SALT + _NONCE:
        return None
    salt, nonce = data[:_SALT], data[_SALT : _SALT + _NONCE]
    modules = _ciphers()
    try:
        plain = modules.aead.AESGCM(_scrypt_key(password, salt)).decrypt(
            nonce, data[_SALT + _NONCE :], None
        )
    except modules.InvalidTag:
        return None
    return bytes(plain).decode()


@lru_cache(maxsize=64)
def _scrypt_key(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=64 << 20, dklen=32
    )


def _jasypt_aes(data: bytes, password: str) -> str | None:
    """Salt, IV and content of PBEWithHmacSHA256AndAES_256 with Jasypt's RandomIvGenerator."""
    modules = _ciphers()
    salt, iv, content = data[:16], data[16:32], data[32:]
    key = hashlib.pbkdf2_hmac("sha256", _normalised(password), salt, _ITERATIONS, 32)
    return _cbc(content, 16, lambda: (modules.algorithms.AES(key), modules.modes.CBC(iv)))


def _jasypt_des(data: bytes, password: str) -> str | None:
    """Salt and content of PBEWithMD5AndDES, ActiveMQ's default."""
    modules = _ciphers()
    digest = _normalised(password) + data[:8]
    for _ in range(_ITERATIONS):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    key = digest[:8] * 3  # DES is triple DES with three times the same key
    return _cbc(data[8:], 8, lambda: (modules.TripleDES(key), modules.modes.CBC(digest[8:])))


def _cbc(content: bytes, block: int, cipher: Callable[[], tuple[Any, Any]]) -> str | None:
    """Decrypt; None: the content was not encrypted so."""
    if not content or len(content) % block:
        return None
    decryptor = _ciphers().Cipher(*cipher()).decryptor()
    padded = decryptor.update(content) + decryptor.finalize()
    padding = padded[-1]
    if not 1 <= padding <= block or padded[-padding:] != bytes([padding]) * padding:
        return None
    try:
        text = str(padded[:-padding], "utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _normalised(password: str) -> bytes:
    return unicodedata.normalize("NFC", password).encode()


class _Ciphers:
    """The parts of the package cryptography."""

    def __init__(self) -> None:
        # an extra, and slow to import
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers import (  # noqa: PLC0415
            Cipher,
            aead,
            algorithms,
            modes,
        )

        self.InvalidTag = InvalidTag
        self.TripleDES = TripleDES
        self.Cipher: Any = Cipher
        self.aead = aead
        self.algorithms = algorithms
        self.modes = modes


@lru_cache(maxsize=1)
def _ciphers() -> _Ciphers:
    try:
        return _Ciphers()
    except ImportError as error:
        raise ConfigurationException(
            "Encrypted values, ENC(...), need the package cryptography",
            hint=install_command("encryption"),
        ) from error
