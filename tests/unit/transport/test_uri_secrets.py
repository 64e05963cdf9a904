"""Passwords in broker URLs: kept when a URL is written to be parsed again, hidden in messages."""

from __future__ import annotations

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI


@pytest.mark.parametrize("encoded", ["a%2Cb", "a%28b", "a%29b", "a%26b%3Dc"])
def test_a_password_in_a_composite_url_survives_writing_and_parsing(encoded: str) -> None:
    uri = TransportURI.parse(f"failover:(ssl://h:1?socket.keyStorePassword={encoded})")

    assert TransportURI.parse(uri.with_secrets()) == uri


@pytest.mark.parametrize(
    "name", ["keyStorePassphrase", "PASSWD", "clientSecret", "keyStorePassword "]
)
def test_the_value_of_a_misspelt_password_option_is_hidden(name: str) -> None:
    uri = TransportURI("ssl", "h:1", {name: "s3cr"})

    assert str(uri) == f"ssl://h:1?{name}=***"


@pytest.mark.parametrize("name", ["keyStorePassphrase", "wireFormat.sharedSecret"])
def test_the_error_about_a_misspelt_password_option_hides_its_value(name: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        create_transport(f"ssl://h:1?{name}=s3cr")
    assert f"{name}=***" in str(caught.value)
    assert "s3cr" not in str(caught.value)
