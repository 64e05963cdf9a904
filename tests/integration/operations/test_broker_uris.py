"""`pyjms broker start URI`: broker:, properties: and xbean:, and errors in them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.kit.brokers.commands import broker_process, listening_at, stopped
from tests.kit.clients.checks import exchange_message
from tests.kit.data import DATA

_XML = DATA / "activemq-conf" / "debian-main.xml"


@pytest.mark.fact("activemq-broker B12")
async def test_a_broker_uri(tmp_path: Path) -> None:
    uri = "broker:(tcp://127.0.0.1:0,stomp://127.0.0.1:0)/shop?persistent=false&useJmx=false"
    with broker_process(uri, cwd=tmp_path) as process:
        await exchange_message(listening_at(process), "q")
        assert "Broker shop stopped" in stopped(process)
    assert not (tmp_path / "activemq-data").exists()


@pytest.mark.fact("activemq-broker B13")
async def test_a_properties_file_with_definitions_over_it(tmp_path: Path) -> None:
    (tmp_path / "broker.properties").write_text(
        "brokerName=a\npersistent=false\nuseJmx=true\nnonsense=1\n"
        "transportConnectorURIs=tcp://127.0.0.1:0\n",
        encoding="latin-1",
    )
    arguments = ("properties:broker.properties", "-D", "brokerName=b")
    with broker_process(*arguments, cwd=tmp_path) as process:
        await exchange_message(listening_at(process), "q")
        log = stopped(process)
    assert "Broker b stopped" in log
    assert "the broker has no attribute nonsense; it is ignored" in log


@pytest.mark.fact("activemq-broker B13")
@pytest.mark.parametrize("prefix", ["xbean:", "xbean:file:"])
async def test_activemqs_xml(tmp_path: Path, prefix: str) -> None:
    uri = f"{prefix}{_XML}"
    arguments = (uri, "-D", f"activemq.base={tmp_path}", "--openwire", "127.0.0.1:0")
    with broker_process(*arguments, cwd=tmp_path) as process:
        await exchange_message(listening_at(process), "q")
        stopped(process)
    assert (tmp_path / "data" / "kahadb" / "db-1.log").exists()


async def test_xml_that_is_not_wholly_supported_is_refused_with_the_list(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(
        "<broker persistent='false'>\n<jmsBridgeConnectors/>\n<proxyConnectors/></broker>",
        encoding="utf-8",
    )
    with broker_process("xbean:x.xml", cwd=tmp_path) as process:
        _, log = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "x.xml:2: <jmsBridgeConnectors>: not converted: there are no bridges" in log
    assert "x.xml:3: <proxyConnectors>: not converted: " in log
    assert "--ignore-unsupported" in log
    arguments = ("xbean:x.xml", "--ignore-unsupported", "--openwire", "127.0.0.1:0")
    with broker_process(*arguments, cwd=tmp_path) as process:
        await exchange_message(listening_at(process), "q")
        assert "<jmsBridgeConnectors>: not converted: " in stopped(process)


@pytest.mark.fact("activemq-broker B16")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing"], "Invalid broker URI, no scheme specified: nothing"),
        (["foo:bar"], "Could not load foo factory"),
        (["broker:()/x?nonsense=1"], "There are 1 Broker options that couldn't be set"),
        (["broker:()/x", "--config", "x.yaml"], "contradict each other"),
        (["properties:missing"], "missing cannot be read"),
        (["xbean:missing.xml"], "missing.xml cannot be read"),
    ],
    ids=["no-scheme", "scheme", "option", "two", "properties", "xml"],
)
def test_wrong_uris_are_refused(tmp_path: Path, arguments: list[str], reason: str) -> None:
    with broker_process(*arguments, cwd=tmp_path) as process:
        _, log = process.communicate(timeout=20)
    assert process.returncode == 2
    assert reason in log
    assert "Traceback" not in log


def test_a_port_in_use_is_an_error_that_names_connector_port_and_key(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "broker.yaml").write_text(
            f"persistent: false\nconnectors: [{{name: door, uri: 'tcp://127.0.0.1:{port}'}}]\n",
            encoding="utf-8",
        )
        with broker_process("--config", "broker.yaml", cwd=tmp_path) as process:
            _, log = process.communicate(timeout=20)
    assert process.returncode == 1
    assert f"(connector 'door', port {port})" in log
    assert "change this connector's uri (broker.yaml: connectors; or --openwire HOST:PORT)" in log
    assert "Traceback" not in log
