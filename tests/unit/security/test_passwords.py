"""Stored passwords, hashes and their comparison."""

from __future__ import annotations

import pytest

from pyjms.errors import ConfigurationException
from pyjms_broker.security.passwords import (
    PasswordVerifier,
    ScryptHash,
    check_stored,
    hash_password,
)

RFC_7914 = ScryptHash(
    14,
    8,
    1,
    b"SodiumChloride",
    bytes.fromhex(
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    ),
)


def test_hashes_are_those_of_rfc_7914() -> None:
    assert RFC_7914.matches("pleaseletmein")
    assert not RFC_7914.matches("pleaseletmein ")
    assert ScryptHash.parse(str(RFC_7914)) == RFC_7914


def test_a_hash_matches_its_password_alone() -> None:
    stored = hash_password("grüße \ud800")
    assert stored.startswith("$scrypt$ln=15,r=8,p=1$")
    assert stored != hash_password("grüße \ud800")
    verifier = PasswordVerifier()
    assert not verifier.recognises(stored, "grüße \ud800")
    assert verifier.matches(stored, "grüße \ud800")
    assert verifier.recognises(stored, "grüße \ud800")
    assert not verifier.recognises(stored, "other")
    assert not verifier.matches(stored, "other")
    assert not verifier.matches(stored, stored)


@pytest.mark.parametrize(("password", "same"), [("secret", True), ("Secret", False), ("", False)])
def test_plain_passwords_are_compared(password: str, same: bool) -> None:
    assert PasswordVerifier().matches("secret", password) == same


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ("$scrypt$", "cannot be read"),
        ("$scrypt$ln=15,r=8,p=1$c2FsdA$!", "cannot be read"),
        ("$scrypt$ln=15,r=8,p=1$c2FsdA$YQ", "too short"),
        ("$scrypt$ln=15,r=8,p=1$abcde$YQ", "cannot be read"),
        ("$scrypt$ln=30,r=8,p=1$c2FsdA$YQ", "out of range"),
        ("$scrypt$ln=0,r=8,p=1$c2FsdA$YQ", "out of range"),
        ("$scrypt$ln=15,r=8,p=99$c2FsdA$YQ", "out of range"),
        ("ENC(mYRkg+4Q4hua1kvpCCI2hg==)", "is encrypted"),
    ],
)
def test_passwords_that_cannot_be_compared_are_refused(stored: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason) as caught:
        check_stored(stored)
    assert "pyjms broker passwd" in str(caught.value)
    assert stored not in str(caught.value) or stored == "$scrypt$"
