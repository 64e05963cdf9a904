"""Broker URIs and URI attributes."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.cluster import ClusterAttributes
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.service import BrokerService
from pyjms_broker.service.uri import keywords_from, known_options
from tests.kit.recipes import install


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


@pytest.mark.fact("activemq-broker B13")
def test_files_describe_brokers(tmp_path: Path) -> None:
    xml, properties = tmp_path / "activemq.xml", tmp_path / "broker.properties"
    xml.write_text("<broker brokerName='shop' persistent='false'/>", encoding="utf-8")
    properties.write_text("brokerName=shop\npersistent=false\n", encoding="latin-1")
    for uri in (f"xbean:{xml}", f"xbean:file:{xml}", f"properties:{properties}"):
        service = BrokerService.from_uri(uri)
        assert (service.broker_name, service.persistent) == ("shop", False)


@pytest.mark.fact("activemq-broker B13", "activemq-broker B14")
async def test_vm_urls_name_such_files(tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text("<broker brokerName='shop' persistent='false'/>", encoding="utf-8")
    url = f"vm://{{}}?brokerConfig=xbean:{file}"
    async with await ConnectionFactory(url.format("shop")).create_connection() as connection:
        await connection.start()
        assert vm_registry.find("shop") is not None
    for name, option, reason in (
        ("other", "", "is named shop"),
        ("shop", "&broker.persistent=true", "contradict each other"),
    ):
        with pytest.raises(ConfigurationException, match=reason):
            await ConnectionFactory(url.format(name) + option).create_connection()


@pytest.mark.fact("activemq-broker B13")
def test_installed_factories_make_brokers_of_other_schemes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "pyproject.toml": """[project]
name = "shop-brokers"
version = "1"
[project.entry-points."broker.factories"]
shop = "shop_brokers:create"
wrong = "shop_brokers:wrong"
""",
        "shop_brokers.py": """from pyjms_broker.service import BrokerService

def create(uri, given):
    return BrokerService(uri.partition(":")[2])

def wrong(uri, given):
    return uri
""",
    }
    install(files, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert BrokerService.from_uri("shop:it").broker_name == "it"
    with pytest.raises(ConfigurationException, match="is not a factory of a BrokerService"):
        BrokerService.from_uri("wrong:it")
    with pytest.raises(ConfigurationException, match="start with broker:, properties:"):
        BrokerService.from_uri("other:it")
