"""The names of the algorithms of Jasypt's encryption, for the command line."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Algorithm"]


class Algorithm(StrEnum):
    """An algorithm of `activemq encrypt`, by its name there."""

    MD5_DES = "PBEWithMD5AndDES"
    SHA256_AES = "PBEWithHmacSHA256AndAES_256"
