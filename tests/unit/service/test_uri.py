"""Broker URIs and URI attributes."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import pytest

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.cluster import ClusterAttributes
from pyjms_broker.service import BrokerService
from pyjms_broker.service.uri import keywords_from, known_options


def test_a_broker_uri_names_connectors_the_broker_and_its_attributes() -> None:
    service = BrokerService.from_uri(
        "broker:(tcp://127.0.0.1:0,tcp://127.0.0.1:0?wireFormat.maxFrameSize=1000000)/b1"
        "?persistent=false&useJmx=false&advisorySupport=false"
    )
    assert service.broker_name == "b1"
    assert not service.persistent
    assert not service.advisory_support
    assert len(service.connectors) == 2
    bare = BrokerService.from_uri("broker://()/name")
    assert (bare.broker_name, bare.connectors, bare.persistent) == ("name", [], True)
    with pytest.raises(ConfigurationException) as unknown:
        BrokerService.from_uri("broker:()/b?persistant=false&foo=1")
    assert "There are 2 Broker options that couldn't be set on the BrokerService." in str(
        unknown.value
    )
    assert "{persistant=false, foo=1}" in str(unknown.value)
    assert "did you mean 'persistent' instead of persistant?" in str(unknown.value)
    with pytest.raises(ConfigurationException, match=r"has no proxy connectors yet"):
        BrokerService.from_uri("broker:(proxy:tcp://x:1)/b")
    networks = "network:static:tcp://x:1,network:static:(tcp://y:2)?minConnectTime=7000"
    joined = BrokerService.from_uri(f"broker:({networks})/b").networks.connectors
    assert [(each.name, each.uri) for each in joined] == [
        ("NC", "static:(tcp://x:1)"),
        ("NC-2", "static:(tcp://y:2)?minConnectTime=7000"),
    ]


@pytest.mark.fact("activemq-broker B16")
def test_other_uris_make_no_broker() -> None:
    with pytest.raises(
        ConfigurationException, match=r"^Invalid broker URI, no scheme specified: x"
    ):
        BrokerService.from_uri("x")
    with pytest.raises(ConfigurationException, match=r"^Could not load foo factory:"):
        BrokerService.from_uri("foo:bar")


def test_options_without_a_meaning_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert keywords_from({"useJmx": "true"}) == {}
    assert "useJmx has no effect here" in caplog.text


def test_values_are_read_by_type() -> None:
    assert keywords_from({"systemUsage.memoryUsage.limit": "1024", "persistent": "TRUE"}) == {
        "memory_limit": 1024,
        "persistent": True,
    }
    assert keywords_from({"dataDirectory": "data", "deleteAllMessagesOnStartup": "true"}) == {
        "data_directory": "data",
        "delete_all_messages_on_startup": True,
    }
    assert keywords_from({"systemUsage.sendFailIfNoSpaceAfterTimeout": "1500"}) == {
        "send_fail_if_no_space_after_timeout": 1.5
    }
    for name, text in (("persistent", "yes"), ("systemUsage.memoryUsage.limit", "1gb")):
        with pytest.raises(ConfigurationException, match=f"{name}={text} cannot be read"):
            keywords_from({name: text})


def test_every_uri_attribute_is_an_argument_of_the_service() -> None:
    parameters = inspect.signature(BrokerService).parameters
    assert {keyword for keyword, _ in known_options().values()} <= set(parameters)


def test_invalid_characters_of_names_are_replaced() -> None:
    assert BrokerService("my broker/1:a_b.c-d").broker_name == "my_broker_1:a_b.c-d"


class Door(NamedTuple):
    name: str | None
    uri: str
    allow_link_stealing: bool = False
    audit_network_producers: bool = False
    enable_status_monitor: bool = False
    maximum_producers_allowed_per_connection: int | None = None
    maximum_consumers_allowed_per_connection: int | None = None
    discovery_uri: str | None = None
    update_cluster_clients: bool = False

    def cluster_attributes(self) -> ClusterAttributes:
        return ClusterAttributes()

    def transport_uri(self) -> TransportURI:
        return TransportURI.parse(self.uri)


class Configuration:
    connectors = (
        Door("openwire", "tcp://127.0.0.1:0"),
        Door(None, "tcp://127.0.0.1:0", allow_link_stealing=True),
    )

    network_connectors = ()

    def keywords(self) -> dict[str, Any]:
        return {"broker_name": "b", "persistent": False, "use_virtual_topics": False}


def test_a_configuration_makes_a_service() -> None:
    service = BrokerService.from_settings(Configuration())  # type: ignore[arg-type]  # what it uses
    assert (service.broker_name, service.persistent, service.use_virtual_topics) == (
        "b",
        False,
        False,
    )
    assert next(c.name for c in service.connectors) == "openwire"
    assert [c.allow_link_stealing for c in service.connectors] == [False, True]
