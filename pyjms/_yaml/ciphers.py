"""The package cryptography, imported only when a value is encrypted or decrypted."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException

__all__ = ["Ciphers", "ciphers"]


class Ciphers:
    """The imported classes of the package cryptography."""

    def __init__(self) -> None:
        # an optional dependency, and slow to import
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
def ciphers() -> Ciphers:
    """Return the classes of the package cryptography.

    Raises:
        ConfigurationException: the package is not installed.
    """
    try:
        return Ciphers()
    except ImportError as error:
        raise ConfigurationException(
            "Encrypted values, ENC(...), need the package cryptography",
            hint=install_command("encryption"),
        ) from error
