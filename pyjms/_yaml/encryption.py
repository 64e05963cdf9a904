"""Encrypted values of configuration files: `ENC(...)`. (activemq-edges SE3)

`pyjms broker encrypt` creates them: AES-256 in GCM mode, with a key that scrypt derives from the
password. Values created by ActiveMQ's `activemq encrypt` (Jasypt: PBEWithMD5AndDES, and
PBEWithHmacSHA256AndAES_256 with a random IV) can be decrypted as well. The password comes from the
environment.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pyjms._yaml.algorithm import Algorithm
from pyjms._yaml.ciphers import ciphers
from pyjms._yaml.jasypt import jasypt_decrypted, jasypt_encrypted
from pyjms.errors import ConfigurationException

__all__ = ["PASSWORD_VARIABLES", "decrypted", "encrypted", "is_encrypted"]

PASSWORD_VARIABLES: Final = ("PYJMS_ENCRYPTION_PASSWORD", "ACTIVEMQ_ENCRYPTION_PASSWORD")
"""The environment variables for the password; the first one that is set is used."""
_PREFIX: Final = "v1:"
"""The prefix of our own format; values of Jasypt have no colon."""
_SALT: Final = 16
_NONCE: Final = 12
_MAXIMUM: Final = 65_536
"""The maximum number of characters of a value."""


def is_encrypted(value: str) -> bool:
    """Return whether a text is an encrypted value."""
    return value.startswith("ENC(") and value.endswith(")")


def encrypted(text: str, password: str, algorithm: Algorithm | None = None) -> str:
    """Return `ENC(...)` of a text. Takes about 0.1 s.

    Args:
        text: the text to encrypt.
        password: the password from which the key is derived.
        algorithm: an algorithm of ActiveMQ, for its files; None: our own.

    Raises:
        ConfigurationException: the package cryptography is not installed.
    """
    if algorithm is not None:
        return f"ENC({base64.b64encode(jasypt_encrypted(text, password, algorithm)).decode()})"
    salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
    cipher = ciphers().aead.AESGCM(_scrypt_key(password, salt))
    data = salt + nonce + cipher.encrypt(nonce, text.encode(), None)
    return f"ENC({_PREFIX}{base64.b64encode(data).decode()})"


def decrypted(value: str, environ: Mapping[str, str], algorithm: Algorithm | None = None) -> str:
    """Return the text of an encrypted value. Takes about 0.1 s; no error contains the text.

    Args:
        value: `ENC(...)`, or the text between the parentheses.
        environ: the environment, with the password in one of PASSWORD_VARIABLES.
        algorithm: the only algorithm of ActiveMQ to try; None: our own and all of ActiveMQ.

    Raises:
        ConfigurationException: the password is missing or wrong, or the package cryptography is not
            installed.
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
    if inner.startswith(_PREFIX):
        found = [_gcm(data, password)] if algorithm is None else []
    else:
        ways = (Algorithm.SHA256_AES, Algorithm.MD5_DES) if algorithm is None else (algorithm,)
        found = [jasypt_decrypted(data, password, way) for way in ways]
    for text in found:
        if text is not None:
            return text
    raise ConfigurationException(
        "An encrypted value, ENC(...), cannot be decrypted",
        hint="the password is wrong, or the algorithm is not one of "
        f"{' and '.join((algorithm,) if algorithm else Algorithm)}; "
        "encrypt it again with pyjms broker encrypt",
    )


def _gcm(data: bytes, password: str) -> str | None:
    if len(data) < _SALT + _NONCE:
        return None
    salt, nonce = data[:_SALT], data[_SALT : _SALT + _NONCE]
    modules = ciphers()
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
