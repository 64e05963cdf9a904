"""A connector is open to other machines only if the broker has users, or is told to have none."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConfigurationException
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.security import simple, user
from tests.kit.processes.forked_python import run_python


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "127.8.9.1"])
async def test_this_machine_connects_without_users(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = BrokerService("loopback", persistent=False)
    connector = service.add_connector(f"tcp://{host}:0")
    async with service:
        assert connector.connect_uri.rpartition(":")[2] != "0"
    assert "is open to other machines" not in caplog.text


@pytest.mark.fact("activemq-edges 11.16")
@pytest.mark.parametrize("scheme", ["tcp", "stomp", "ws"])
async def test_a_broker_without_users_does_not_start_for_other_machines(scheme: str) -> None:
    service = BrokerService("exposed", persistent=False)
    connector = service.add_connector(f"{scheme}://0.0.0.0:0", name="all")
    with pytest.raises(ConfigurationException) as caught:
        await service.start()
    error = caught.value
    assert error.reason.startswith("Connector 'all' is open to other machines, at 0.0.0.0 port ")
    assert error.hint is not None
    for way_out in (
        "bind it to 127.0.0.1",
        "configure users (plugins: simple_authentication or properties_authentication)",
        "set allow_anonymous_remote: true",
    ):
        assert way_out in error.hint
    assert not service.started
    port = int(error.reason.partition(" port ")[2].partition(",")[0])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert not connector.connections


async def test_a_connector_that_is_added_later_is_checked_too() -> None:
    async with BrokerService("later", persistent=False) as service:
        connector = service.add_connector("tcp://0.0.0.0:0")
        with pytest.raises(ConfigurationException, match="is open to other machines"):
            await connector.start()
        assert service.started


async def test_a_broker_with_users_is_open_to_other_machines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = BrokerService("users", persistent=False, plugins=[simple(user("alice"))])
    service.add_connector("tcp://0.0.0.0:0")
    async with service:
        assert service.started
    assert "is open to other machines" not in caplog.text


@pytest.mark.fact("activemq-edges SE2")
async def test_other_machines_connect_without_users_only_if_that_is_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "broker_name: anonymous\npersistent: false\nallow_anonymous_remote: true\n"
        "connectors: [{uri: 'tcp://0.0.0.0:0', name: all}]\n"
    )
    async with BrokerService.from_settings(load_broker_settings(file, environ={})) as service:
        port = service.connect_uri.rpartition(":")[2]
        factory = ConnectionFactory(f"tcp://127.0.0.1:{port}", user="anybody", password="any")
        template = JmsTemplate(factory, receive_timeout=5)
        await template.convert_and_send("orders", "x")
        assert await template.receive_and_convert("orders") == "x"
    warned = [r for r in caplog.records if "is open to other machines" in r.getMessage()]
    assert len(warned) == 1
    assert warned[0].levelname == "WARNING"


def test_the_command_line_refuses_and_names_the_ways_out() -> None:
    arguments = ("start", "--ephemeral", "--openwire", "0.0.0.0:0")
    done = run_python("-m", "pyjms_broker", *arguments)
    assert done.returncode == 2
    assert "allow_anonymous_remote: true" in done.stderr
    assert "accepts connections" not in done.stdout
