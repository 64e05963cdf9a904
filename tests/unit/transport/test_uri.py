from __future__ import annotations

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI, default_broker_url, did_you_mean, parse_broker_uri

parse = TransportURI.parse


@pytest.mark.fact("activemq-edges U1")
def test_simple_and_composite_urls_nest_and_keep_their_options_apart() -> None:
    simple = parse("tcp://broker.example:61616?trace=true&jms.clientID=a%20b%26c+d")
    assert (simple.scheme, simple.host, simple.port) == ("tcp", "broker.example", 61616)
    assert simple.options == {"trace": "true", "jms.clientID": "a b&c d"}

    composite = parse("failover:(tcp://a:1?x=1,failover:(tcp://b:2,tcp://c:3)?y=2)?randomize=false")
    assert composite.options == {"randomize": "false"}
    first, nested = composite.components
    assert (first.host, first.options) == ("a", {"x": "1"})
    assert nested.scheme == "failover"
    assert nested.options == {"y": "2"}
    assert [c.port for c in nested.components] == [2, 3]

    bare = parse("failover:tcp://a:1?x=1,tcp://b:2")
    assert [(c.host, dict(c.options)) for c in bare.components] == [("a", {"x": "1"}), ("b", {})]
    assert parse("failover://(tcp://a:1)?x=1").components == (parse("tcp://a:1"),)
    assert parse("failover://tcp://localhost:61616").components == (parse("tcp://localhost:61616"),)


def test_scheme_is_case_insensitive_and_spaces_around_do_not_matter() -> None:
    assert parse("  TCP://a:1 ") == parse("tcp://a:1")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("tcp://[::1]:61616", "::1", 61616),
        ("tcp://localhost", "localhost", None),
        ("tcp://:5", "", 5),
        ("vm://localhost", "localhost", None),
        ("vm:localhost", "localhost", None),
        ("tcp://user:secret@h:7", "h", 7),
    ],
)
def test_host_and_port(text: str, host: str, port: int | None) -> None:
    uri = parse(text)
    assert (uri.host, uri.port) == (host, port)


@pytest.mark.parametrize("port", ["6161x", "-1", "65536", "99999999999999999999", "²"])
def test_an_invalid_port_is_named(port: str) -> None:
    with pytest.raises(ConfigurationException, match="Invalid port") as caught:
        _ = parse(f"tcp://localhost:{port}").port
    assert repr(port) in caught.value.reason
    assert "localhost" in caught.value.reason
    assert caught.value.hint


@pytest.mark.fact("activemq-edges N21")
def test_no_scheme() -> None:
    with pytest.raises(ConfigurationException) as caught:
        parse("//localhost:61616")
    assert caught.value.reason == (
        "Could not create Transport. Reason: Transport not scheme specified: [//localhost:61616]"
    )
    assert "tcp://localhost:61616" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "failover:(tcp://a:1",
        "failover:(tcp://a:1)x=1",
        "failover:tcp://a:1)",
        "tcp://a:1?novalue",
        "tcp://a:1?=1",
    ],
)
def test_malformed_urls_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationException, match="Could not create Transport"):
        parse(text)


def test_passwords_never_show() -> None:
    secret = "hunter2"
    uri = parse(
        f"failover:(tcp://u:{secret}@a:1?jms.password={secret})?socket.keyPassword={secret}"
    )
    assert secret not in str(uri)
    assert secret not in repr(uri)
    assert uri.components[0].options["jms.password"] == secret
    for bad in (f"//u:{secret}@h?jms.password={secret}", f"tcp://u:{secret}@h:x?password={secret}"):
        with pytest.raises(ConfigurationException) as caught:
            _ = parse(bad).port
        assert secret not in str(caught.value)


def test_split_options_takes_a_prefix_out() -> None:
    uri = parse("tcp://a:1?jms.useAsyncSend=true&keepAlive=true&jms.prefetchPolicy.all=5")
    jms, rest = uri.split_options("jms.")
    assert jms == {"useAsyncSend": "true", "prefetchPolicy.all": "5"}
    assert rest.options == {"keepAlive": "true"}
    assert rest.host == "a"
    assert str(rest) == "tcp://a:1?keepAlive=true"


def test_text_of_a_composite_reads_back() -> None:
    text = "broker:(tcp://a:1?x=1,vm://b)/name?persistent=false"
    assert str(parse(text)) == text
    assert parse(text).path == "/name"


@pytest.mark.fact("activemq-edges F9")
def test_default_url_comes_from_the_environment() -> None:
    assert default_broker_url({}) == "tcp://localhost:61616"
    assert default_broker_url({"AMQ_HOST": "h", "AMQ_PORT": "7"}) == "tcp://h:7"
    assert default_broker_url({"AMQ_HOST": "", "AMQ_PORT": ""}) == "tcp://localhost:61616"
    assert default_broker_url({"AMQ_HOST": "::1"}) == "tcp://[::1]:61616"
    prefixed = {"org.apache.activemq.AMQ_HOST": "first", "AMQ_HOST": "second"}
    assert default_broker_url(prefixed) == "tcp://first:61616"
    bind = {"BROKER_BIND_URL": "tcp://x:1", "AMQ_HOST": "h", "AMQ_PORT": "7"}
    assert default_broker_url(bind) == "tcp://x:1"
    with pytest.raises(ConfigurationException, match=r"Invalid port 'seven'.*AMQ_PORT"):
        default_broker_url({"AMQ_PORT": "seven"})


def test_default_url_reads_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQ_PORT", "61999")
    monkeypatch.delenv("AMQ_HOST", raising=False)
    assert default_broker_url() == "tcp://localhost:61999"


@pytest.mark.fact("activemq-broker B16")
def test_broker_uris_without_a_known_scheme() -> None:
    with pytest.raises(ConfigurationException) as caught:
        parse_broker_uri("localhost")
    assert caught.value.reason == "Invalid broker URI, no scheme specified: localhost"
    with pytest.raises(ConfigurationException, match=r"^Could not load foo factory:"):
        parse_broker_uri("foo:(tcp://a:1)")
    assert parse_broker_uri("broker:()/name").path == "/name"


def test_did_you_mean() -> None:
    assert did_you_mean("keepalve", ["keepAlive", "trace"]) == "did you mean 'keepAlive'?"
    assert did_you_mean("zzz", ["keepAlive"]) == ""
