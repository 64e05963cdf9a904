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


@pytest.mark.parametrize(
    "url",
    [
        "failover:(ssl://h:1?ssl.keyStorePassword=s3cr,wort)",
        "failover:(ssl://h:1?ssl.keyStorePassword=s3cr,wort:more)",
        "failover:(ssl://h:1?ssl.keyStorePassword=s3cr,/wort,tcp://h:2)",
        "failover:(static:(ssl://h:1?ssl.keyStorePassword=s3cr),wort)",
        "failover:(ssl://h:1?ssl.keyStorePassword=s3cr)wort)",
        "failover:(ssl://h:1?ssl.keyStorePassword=s3cr(wort)",
        "failover:(ssl://h:1)?nested.ssl.keyStorePassword=s3cr&wort",
        "failover:(tcp://h:1?x)?nested.ssl.keyStorePassword=s3cr,wort",
        "ssl://h:1?ssl.keyStorePassword=s3cr&wort",
        "ssl://h:1?ssl.keyStorePassword=s3cr&=wort",
        "h:1?ssl.keyStorePassword=s3cr,wort",
        "//h:1?ssl.keyStorePassword=s3cr&wort",
    ],
)
def test_an_error_does_not_quote_what_may_belong_to_a_password(url: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        create_transport(url)
    assert "s3cr" not in str(caught.value)
    assert "wort" not in str(caught.value)


def test_an_error_about_a_component_without_a_scheme_says_how_to_write_a_comma() -> None:
    with pytest.raises(ConfigurationException, match="%2C for a comma") as caught:
        create_transport("failover:(ssl://h:1?ssl.keyStorePassword=a,b)")
    assert "ssl.keyStorePassword=***" in str(caught.value)


def test_a_component_after_one_with_a_password_is_read_as_any_other() -> None:
    uri = TransportURI.parse("failover:(ssl://a:1?password=x,tcp:b:2,static:(tcp://c:3),ssl://d)")

    assert [component.scheme for component in uri.components] == ["ssl", "tcp", "static", "ssl"]
