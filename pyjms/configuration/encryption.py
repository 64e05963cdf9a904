"""Encrypted values of configuration files: `ENC(...)`. (activemq-edges SE3)

`pyjms broker encrypt` creates them: AES-256 in GCM mode, with a key that scrypt derives from the
password. Values created by ActiveMQ's `activemq encrypt` (Jasypt: PBEWithMD5AndDES, its default,
and PBEWithHmacSHA256AndAES_256 with a random IV) can be created and decrypted as well. DES is weak;
it is supported because brokers need it. The password comes from the environment.

The package cryptography is an extra and slow to import, so it is imported when a value is encrypted
or decrypted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command

PASSWORD_VARIABLES: Final = ("PYJMS_ENCRYPTION_PASSWORD", "ACTIVEMQ_ENCRYPTION_PASSWORD")
"""The environment variables for the password; the first one that is set is used."""
_PREFIX: Final = "v1:"
"""The prefix of our own format; values of Jasypt have no colon."""
_SALT: Final = 16
_NONCE: Final = 12
_MAXIMUM: Final = 65_536
"""The maximum number of characters of a value."""
_ITERATIONS: Final = 1000
"""Jasypt's default."""
_DES_SALT: Final = 8
_AES_SALT: Final = 16
_AES_IV: Final = 16


class Algorithm(StrEnum):
    """An algorithm of `activemq encrypt`, by its name there."""

    MD5_DES = "PBEWithMD5AndDES"
    SHA256_AES = "PBEWithHmacSHA256AndAES_256"


def is_encrypted(value: str) -> bool:
    """Return whether a text is an encrypted value."""
    return value.startswith("ENC(") and value.endswith(")")


def encrypt(text: str, password: str, algorithm: Algorithm | None = None) -> str:
    """Return `ENC(...)` of a text. Takes about 0.1 s.

    Args:
        text: the text to encrypt.
        password: the password from which the key is derived.
        algorithm: an algorithm of ActiveMQ, for its files; None: our own.
    """
    if algorithm is not None:
        return f"ENC({base64.b64encode(_jasypt_encrypt(text, password, algorithm)).decode()})"
    salt, nonce = secrets.token_bytes(_SALT), secrets.token_bytes(_NONCE)
    data = salt + nonce + _gcm(password, salt).encrypt(nonce, text.encode(), None)
    return f"ENC({_PREFIX}{base64.b64encode(data).decode()})"


def decrypt(value: str, environ: Mapping[str, str], algorithm: Algorithm | None = None) -> str:
    """Return the text of an encrypted value. Takes about 0.1 s; no error contains the text.

    Args:
        value: `ENC(...)`, or the text between the parentheses.
        environ: the environment, with the password in one of PASSWORD_VARIABLES.
        algorithm: the only algorithm of ActiveMQ to try; None: our own and all of ActiveMQ.
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
        found = [_gcm_decrypt(data, password)] if algorithm is None else []
    else:
        ways = (Algorithm.SHA256_AES, Algorithm.MD5_DES) if algorithm is None else (algorithm,)
        found = [_jasypt_decrypt(data, password, way) for way in ways]
    for text in found:
        if text is not None:
            return text
    raise ConfigurationException(
        "An encrypted value, ENC(...), cannot be decrypted",
        hint="the password is wrong, or the algorithm is not one of "
        f"{' and '.join((algorithm,) if algorithm else Algorithm)}; "
        "encrypt it again with pyjms broker encrypt",
    )


def _cryptography(module: str) -> Any:
    try:
        return import_module(f"cryptography.{module}")
    except ImportError as error:
        raise ConfigurationException(
            "Encrypted values, ENC(...), need the package cryptography",
            hint=install_command("encryption"),
        ) from error


def _gcm(password: str, salt: bytes) -> Any:
    return _cryptography("hazmat.primitives.ciphers.aead").AESGCM(_scrypt_key(password, salt))


def _gcm_decrypt(data: bytes, password: str) -> str | None:
    if len(data) < _SALT + _NONCE:
        return None
    salt, nonce, content = data[:_SALT], data[_SALT : _SALT + _NONCE], data[_SALT + _NONCE :]
    cipher = _gcm(password, salt)
    try:
        return bytes(cipher.decrypt(nonce, content, None)).decode()
    except _cryptography("exceptions").InvalidTag:
        return None


@lru_cache(maxsize=64)
def _scrypt_key(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=64 << 20, dklen=32
    )


def _jasypt_encrypt(text: str, password: str, algorithm: Algorithm) -> bytes:
    """Return the concatenation of salt, IV (AES only) and ciphertext."""
    if algorithm is Algorithm.MD5_DES:
        head = secrets.token_bytes(_DES_SALT)
        return head + _encrypt(text.encode(), 8, _des(password, head))
    head = secrets.token_bytes(_AES_SALT + _AES_IV)
    return head + _encrypt(text.encode(), 16, _aes(password, head))


def _jasypt_decrypt(data: bytes, password: str, algorithm: Algorithm) -> str | None:
    """Return the text; None: the data was encrypted otherwise, or with another password."""
    if algorithm is Algorithm.MD5_DES:
        head, content = data[:_DES_SALT], data[_DES_SALT:]
        return _decrypt(content, 8, lambda: _des(password, head))
    head, content = data[: _AES_SALT + _AES_IV], data[_AES_SALT + _AES_IV :]
    return _decrypt(content, 16, lambda: _aes(password, head))


def _aes(password: str, head: bytes) -> Any:
    """Return the AES cipher for Jasypt's RandomIvGenerator."""
    ciphers = _cryptography("hazmat.primitives.ciphers")
    salt, iv = head[:_AES_SALT], head[_AES_SALT:]
    key = hashlib.pbkdf2_hmac("sha256", _normalize(password), salt, _ITERATIONS, 32)
    return ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CBC(iv))


def _des(password: str, salt: bytes) -> Any:
    ciphers = _cryptography("hazmat.primitives.ciphers")
    triple = _cryptography("hazmat.decrepit.ciphers.algorithms").TripleDES
    digest = _normalize(password) + salt
    for _ in range(_ITERATIONS):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    key = digest[:8] * 3  # DES is triple DES with three times the same key
    return ciphers.Cipher(triple(key), ciphers.modes.CBC(digest[8:]))


def _encrypt(plain: bytes, block: int, cipher: Any) -> bytes:
    padding = block - len(plain) % block
    encryptor = cipher.encryptor()
    return bytes(encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize())


def _decrypt(content: bytes, block: int, cipher: Callable[[], Any]) -> str | None:
    if not content or len(content) % block:
        return None
    decryptor = cipher().decryptor()
    padded = decryptor.update(content) + decryptor.finalize()
    padding = padded[-1]
    if not 1 <= padding <= block or padded[-padding:] != bytes([padding]) * padding:
        return None
    try:
        text = str(padded[:-padding], "utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _normalize(password: str) -> bytes:
    return unicodedata.normalize("NFC", password).encode()
