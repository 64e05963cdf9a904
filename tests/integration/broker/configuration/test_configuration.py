"""A broker made from broker.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms_broker.cli.main import app
from pyjms_broker.cli.start import Source, make_service
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

YAML = """
broker_name: from-yaml
persistent: false
system_usage: {memory_limit: 1mb}
connectors:
  - name: door
    uri: tcp://127.0.0.1:0
destinations: [ready]
policies:
  - destination: orders.>
    dead_letter_strategy: {type: shared, dead_letter_queue: orders.dead}
virtual_destinations:
  - type: composite_queue
    name: in
    forward_to: [{destination: out}]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "broker.yaml"
    file.write_text(YAML)
    return file


@pytest.mark.fact("activemq-broker D3")
async def test_the_file_says_what_the_broker_does(path: Path, raw_client: type[RawClient]) -> None:
    service = BrokerService.from_settings(load_broker_settings(path, environ={}))
    assert service.broker_name == "from-yaml"
    assert service.system_usage.memory.limit == 1024 * 1024
    assert [connector.name for connector in service.connectors] == ["door"]
    async with EmbeddedTestBroker(service) as broker:
        assert await broker.tcp_url() == service.connectors[0].connect_uri
        assert Queue("ready") in service.region_broker.destinations()
        client = raw_client(create_transport(await broker.tcp_url()))
        await client.open()
        await client.send(Queue("in"), "x")
        assert broker.queue_statistics("out").messages == 1
        await client.close()


def test_options_of_the_command_line_win(path: Path, tmp_path: Path) -> None:
    service = make_service(Source(config=path), None, ephemeral=False, openwire=None, name=None)
    assert [connector.name for connector in service.connectors] == ["door"]
    service = make_service(
        Source(config=path), None, ephemeral=True, openwire="127.0.0.1:0", name="mine"
    )
    assert service.broker_name == "mine"
    assert [connector.name for connector in service.connectors] == ["openwire"]
    lasting = tmp_path / "lasting.yaml"
    lasting.write_text("broker_name: kept\npersistence: {type: kahadb, directory: there}\n")
    service = make_service(Source(config=lasting), None, ephemeral=False, openwire=None, name=None)
    assert service.stores.directory == Path("there")
    service = make_service(
        Source(config=lasting), tmp_path, ephemeral=False, openwire=None, name=None
    )
    assert service.stores.directory == tmp_path / "kahadb"
    with pytest.raises(ConfigurationException, match="--data contradicts persistent: false"):
        make_service(Source(config=path), tmp_path, ephemeral=False, openwire=None, name=None)
    service = make_service(Source(config=lasting), None, ephemeral=True, openwire=None, name=None)
    assert not service.persistent
    assert service.stores.directory is None
    service = make_service(Source(), None, ephemeral=False, openwire=None, name="b")
    assert service.stores.directory == Path("activemq-data/b/KahaDB")
    with pytest.raises(ConfigurationException, match="contradict"):
        make_service(Source(), tmp_path, ephemeral=True, openwire=None, name=None)


def test_the_environment_counts_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYJMS_BROKER__BROKER_NAME", "theirs")
    service = make_service(Source(), None, ephemeral=True, openwire=None, name=None)
    assert service.broker_name == "theirs"
    assert [connector.name for connector in service.connectors] == ["openwire"]


@pytest.mark.parametrize(
    ("text", "names"), [("connectors: []\n", []), ("persistent: false\n", ["openwire"])]
)
def test_no_connectors_means_none(tmp_path: Path, text: str, names: list[str]) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(text, encoding="utf-8")
    service = make_service(Source(config=file), None, ephemeral=True, openwire=None, name=None)
    assert [connector.name for connector in service.connectors] == names


def test_a_wrong_key_is_one_line_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text("persistent: false\nadvisory_suport: true\n")
    result = CliRunner().invoke(app, ["start", "--config", str(file)])
    assert result.exit_code == 2
    assert f"{file}" in result.stderr
    assert "advisory_support" in result.stderr
    assert "Traceback" not in result.output
