"""Passwords in plain text or as scrypt hashes, and their comparison in constant time.

Hashes are in the common PHC format, `$scrypt$ln=15,r=8,p=1$SALT$HASH`, where `ln` is the binary
logarithm of scrypt's N. A comparison with a hash takes about 0.1 s of CPU time and 32 MiB.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Final

from pyjms.errors import ConfigurationException

_PREFIX: Final = "$scrypt$"
_FORMAT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
_LN, _R, _P = 15, 8, 1
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_MAXIMUM_MEMORY: Final = 256 << 20
"""The maximum memory of a comparison in bytes; hashes that need more are refused."""
_MAXIMUM_PARALLELISM: Final = 16
_COMPARING: Final = BoundedSemaphore(2)
"""Limits the hashes that are computed at once, so that logins leave processor time to others."""
_REMEMBERED: Final = 1000
"""The number of users whose last correct password is verified without scrypt."""


@dataclass(frozen=True, slots=True)
class ScryptHash:
    """A hash with its parameters."""

    ln: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> ScryptHash:
        """Parse a hash in the PHC format."""
        found = _FORMAT.fullmatch(text)
        hint = "pyjms broker passwd prints a hash"
        if found is None:
            raise ConfigurationException("A scrypt hash cannot be read", hint=hint)
        ln, r, p = (int(found[index]) for index in (1, 2, 3))
        if not (ln and r and p) or p > _MAXIMUM_PARALLELISM or _memory(ln, r) > _MAXIMUM_MEMORY:
            raise ConfigurationException(
                f"A scrypt hash has parameters out of range: ln={ln},r={r},p={p}", hint=hint
            )
        try:
            salt, digest = (_from_base64(found[index]) for index in (4, 5))
        except binascii.Error:
            raise ConfigurationException("A scrypt hash cannot be read", hint=hint) from None
        if len(digest) < _SALT_BYTES:
            raise ConfigurationException("A scrypt hash is too short", hint=hint)
        return cls(ln, r, p, salt, digest)

    def matches(self, password: str) -> bool:
        """Return whether it is the hash of `password`. Slow; call it in a thread."""
        return hmac.compare_digest(_scrypt(password, self, len(self.digest)), self.digest)

    def __str__(self) -> str:
        salt, digest = _base64(self.salt), _base64(self.digest)
        return f"{_PREFIX}ln={self.ln},r={self.r},p={self.p}${salt}${digest}"


def hash_password(password: str) -> str:
    """Return a scrypt hash with a new salt. Takes about 0.1 s."""
    empty = ScryptHash(_LN, _R, _P, secrets.token_bytes(_SALT_BYTES), b"")
    digest = _scrypt(password, empty, _HASH_BYTES)
    return str(ScryptHash(_LN, _R, _P, empty.salt, digest))


def is_hash(stored: str) -> bool:
    """Return whether a stored password is a hash."""
    return stored.startswith(_PREFIX)


def check_stored(stored: str) -> str:
    """Check that a stored password can be compared, and return it."""
    if is_hash(stored):
        ScryptHash.parse(stored)
    elif stored.startswith("ENC(") and stored.endswith(")"):
        raise ConfigurationException(
            "A password is encrypted, ENC(...), but such values are only decrypted in files",
            hint="give the password itself, or a hash that pyjms broker passwd prints",
        )
    return stored


class PasswordVerifier:
    """Compares passwords, caching the correct ones. It is thread-safe."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._correct: OrderedDict[str, bytes] = OrderedDict()
        """Keyed digests of correct passwords, by stored hash."""

    def recognises(self, stored: str, password: str) -> bool:
        """Return whether `password` is the stored text, or cached as correct for a hash. Quick."""
        if not is_hash(stored):
            return hmac.compare_digest(self._digest(stored), self._digest(password))
        known = self._correct.get(stored)
        return known is not None and hmac.compare_digest(known, self._digest(password))

    def matches(self, stored: str, password: str) -> bool:
        """Return whether `password` is the stored one. Slow if that is a hash."""
        if self.recognises(stored, password):
            return True
        if not is_hash(stored) or not ScryptHash.parse(stored).matches(password):
            return False
        self._correct[stored] = self._digest(password)
        while len(self._correct) > _REMEMBERED:
            self._correct.popitem(last=False)
        return True

    def waste_time(self, stored: str, password: str) -> None:
        """Take as long as a comparison with a hash, for a login that fails anyway."""
        ScryptHash.parse(stored).matches(password)

    def _digest(self, password: str) -> bytes:
        """Return a fixed-length digest, so that comparison time does not depend on secrets."""
        return hmac.digest(self._key, _bytes_of(password), "sha256")


def _scrypt(password: str, parameters: ScryptHash, length: int) -> bytes:
    with _COMPARING:
        return hashlib.scrypt(
            _bytes_of(password),
            salt=parameters.salt,
            n=1 << parameters.ln,
            r=parameters.r,
            p=parameters.p,
            maxmem=2 * _MAXIMUM_MEMORY,
            dklen=length,
        )


def _bytes_of(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


def _memory(ln: int, r: int) -> int:
    return 128 * r << ln


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
