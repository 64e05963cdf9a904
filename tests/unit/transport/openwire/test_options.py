from __future__ import annotations

import logging

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.openwire.options import (
    OpenWireOptions,
    read_client_options,
    read_server_options,
)
from pyjms.transport.options import IGNORED_BY_CLIENTS, TcpOptions
from pyjms.transport.uri import TransportURI


def client(query: str) -> tuple[TcpOptions, OpenWireOptions]:
    return read_client_options(TransportURI.parse(f"tcp://h:1?{query}"))


@pytest.mark.parametrize(
    ("query", "attribute", "value"),
    [
        ("connectionTimeout=1500", "connection_timeout", 1.5),
        ("connectionTimeout=0", "connection_timeout", None),
        ("soLinger=3", "so_linger", 3),
        ("socketBufferSize=1024", "socket_buffer_size", 1024),
        ("tcpNoDelay=false", "tcp_no_delay", False),
        ("keepAlive=TRUE", "keep_alive", True),
        ("useLocalHost=true", "use_local_host", True),
        ("socket.keepAlive=true", "keep_alive", True),
        ("socket.receiveBufferSize=5", "receive_buffer_size", 5),
        ("socket.sendBufferSize=6", "send_buffer_size", 6),
    ],
)
def test_tcp_options(query: str, attribute: str, value: object) -> None:
    assert getattr(client(query)[0], attribute) == value


@pytest.mark.parametrize(
    ("query", "attribute", "value"),
    [
        ("minmumWireFormatVersion=9", "minimum_wire_format_version", 9),
        ("useInactivityMonitor=false", "use_inactivity_monitor", False),
        ("useKeepAlive=false", "use_keep_alive", False),
        ("keepAliveResponseRequired=true", "keep_alive_response_required", True),
    ],
)
def test_openwire_options(query: str, attribute: str, value: int | bool) -> None:
    assert getattr(client(query)[1], attribute) == value


@pytest.mark.parametrize(
    ("query", "attribute", "value"),
    [
        ("version=9", "version", 9),
        ("cacheEnabled=true", "cache_enabled", True),
        ("cacheSize=700", "cache_size", 700),
        ("tightEncodingEnabled=true", "tight_encoding_enabled", True),
        ("tcpNoDelayEnabled=false", "tcp_no_delay_enabled", False),
        ("stackTraceEnabled=false", "stack_trace_enabled", False),
        ("sizePrefixDisabled=true", "size_prefix_disabled", True),
        ("maxInactivityDuration=1500", "max_inactivity_duration", 1.5),
        ("maxInactivityDuration=0", "max_inactivity_duration", 0),
        ("maxInactivityDurationInitalDelay=400", "max_inactivity_duration_inital_delay", 0.4),
        ("maxFrameSize=1000", "max_frame_size", 1000),
        ("maxFrameSizeEnabled=false", "max_frame_size_enabled", False),
        ("host=virtual", "host", "virtual"),
        ("includePlatformDetails=true", "include_platform_details", True),
    ],
)
def test_wire_format_options(query: str, attribute: str, value: object) -> None:
    assert getattr(client(f"wireFormat.{query}")[1].wire_format, attribute) == value


@pytest.mark.fact("activemq-edges 1.1/tcp/nio/ssl client", "activemq-edges 1.1/wireFormat.*")
def test_defaults_are_activemqs_and_the_host_is_the_urls() -> None:
    tcp_options, options = client("")
    settings = options.wire_format
    assert tcp_options == TcpOptions(connection_timeout=30.0, socket_buffer_size=65536)
    assert settings.host == "h"
    assert (settings.max_inactivity_duration, settings.max_frame_size) == (30.0, 104857600)


@pytest.mark.fact("activemq-edges U3")
def test_unknown_options_are_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigurationException) as caught:
        client("foo=1")
    assert caught.value.reason == (
        "Could not create Transport. Reason: Invalid connect parameters: {foo=1}"
    )
    with pytest.raises(ConfigurationException) as caught:
        client("keepAlve=true")
    assert caught.value.hint == "did you mean 'keepAlive'?"
    with pytest.raises(ConfigurationException) as caught:
        client("wireFormat.maxInactivityDurationInitialDelay=1")
    assert caught.value.hint == "did you mean 'maxInactivityDurationInitalDelay'?"
    with pytest.raises(ConfigurationException, match=r"Invalid bind parameters: {foo=1}"):
        read_server_options(TransportURI.parse("tcp://:0?foo=1"))
    with pytest.raises(ConfigurationException, match=r"Invalid bind parameters: {foo=1}"):
        read_server_options(TransportURI.parse("tcp://:0?transport.foo=1"))


def test_an_unknown_password_option_is_not_shown() -> None:
    with pytest.raises(ConfigurationException) as caught:
        client("keyStorePassword=hunter2")
    assert "hunter2" not in str(caught.value)
    assert "keyStorePassword=***" in str(caught.value)


@pytest.mark.parametrize(
    "query",
    ["keepAlive=yes", "soLinger=abc", "wireFormat.cacheSize=x", "wireFormat.cacheSize=99"],
)
def test_values_of_the_wrong_type_are_named(query: str) -> None:
    with pytest.raises(ConfigurationException, match="Invalid value") as caught:
        client(query)
    name, _, value = query.removeprefix("wireFormat.").partition("=")
    assert name in caught.value.reason
    assert value in caught.value.reason


@pytest.mark.parametrize("name", sorted(IGNORED_BY_CLIENTS))
def test_options_without_effect_are_accepted_with_one_log_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert client(f"{name}=1")[0] == TcpOptions()
    assert len(caplog.records) == 1
    assert name in caplog.text


def test_several_ignored_options_make_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client("trace=true&daemon=true&auto.stomp.x=1")
    assert [r.levelname for r in caplog.records] == ["INFO"]
    assert all(name in caplog.text for name in ("trace", "daemon", "auto.stomp.x"))


@pytest.mark.fact("activemq-edges N21")
def test_only_openwire_is_a_wire_format_here() -> None:
    client("wireFormat=default")
    with pytest.raises(ConfigurationException, match="Could not create wire format factory for: x"):
        client("wireFormat=x")


def test_server_options() -> None:
    server, accepted, options = read_server_options(
        TransportURI.parse(
            "tcp://0.0.0.0:61616?maximumConnections=10&backlog=7&transport.keepAlive=true"
            "&wireFormat.maxFrameSize=1000"
        )
    )
    assert (server.maximum_connections, server.backlog) == (10, 7)
    assert accepted.keep_alive is True
    assert options.wire_format.max_frame_size == 1000
    assert options.wire_format.host is None
