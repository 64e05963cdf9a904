"""Jasypt's encryption, compatible with ActiveMQ's `activemq encrypt` in both directions.

PBEWithMD5AndDES is ActiveMQ's default. DES is weak; it is supported because brokers need it.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from pyjms._yaml.algorithm import Algorithm
from pyjms._yaml.ciphers import ciphers

__all__ = ["jasypt_decrypted", "jasypt_encrypted"]

_ITERATIONS: Final = 1000
"""Jasypt's default."""
_DES_SALT: Final = 8
_AES_SALT: Final = 16
_AES_IV: Final = 16


def jasypt_encrypted(text: str, password: str, algorithm: Algorithm) -> bytes:
    """Return the concatenation of salt, IV (AES only) and ciphertext.

    Raises:
        ConfigurationException: the package cryptography is not installed.
    """
    if algorithm is Algorithm.MD5_DES:
        head = secrets.token_bytes(_DES_SALT)
        return head + _encrypted(text.encode(), 8, _des(password, head))
    head = secrets.token_bytes(_AES_SALT + _AES_IV)
    return head + _encrypted(text.encode(), 16, _aes(password, head))


def jasypt_decrypted(data: bytes, password: str, algorithm: Algorithm) -> str | None:
    """Return the text; None: the data was encrypted otherwise, or with another password.

    Raises:
        ConfigurationException: the package cryptography is not installed.
    """
    if algorithm is Algorithm.MD5_DES:
        head, content = data[:_DES_SALT], data[_DES_SALT:]
        return _decrypted(content, 8, lambda: _des(password, head))
    head, content = data[: _AES_SALT + _AES_IV], data[_AES_SALT + _AES_IV :]
    return _decrypted(content, 16, lambda: _aes(password, head))


def _aes(password: str, head: bytes) -> Any:
    """Return the AES cipher for Jasypt's RandomIvGenerator."""
    modules = ciphers()
    salt, iv = head[:_AES_SALT], head[_AES_SALT:]
    key = hashlib.pbkdf2_hmac("sha256", _normalised(password), salt, _ITERATIONS, 32)
    return modules.Cipher(modules.algorithms.AES(key), modules.modes.CBC(iv))


def _des(password: str, salt: bytes) -> Any:
    modules = ciphers()
    digest = _normalised(password) + salt
    for _ in range(_ITERATIONS):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    key = digest[:8] * 3  # DES is triple DES with three times the same key
    return modules.Cipher(modules.TripleDES(key), modules.modes.CBC(digest[8:]))


def _encrypted(plain: bytes, block: int, cipher: Any) -> bytes:
    padding = block - len(plain) % block
    encryptor = cipher.encryptor()
    return bytes(encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize())


def _decrypted(content: bytes, block: int, cipher: Callable[[], Any]) -> str | None:
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


def _normalised(password: str) -> bytes:
    return unicodedata.normalize("NFC", password).encode()
