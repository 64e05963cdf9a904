"""`pyjms broker create`: a directory from which a broker starts, as a service, too."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from pyjms_broker.cli.config import create_instance
from pyjms_broker.cli.start import Source, make_service
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.commands import broker_process, free_port, listening_at, stopped
from tests.kit.clients.checks import exchange_message
from tests.kit.data import DATA
from tests.kit.processes.command_line import pyjms_broker_command


def modes(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_mode & 0o777 for each in path.rglob("*")}


async def test_a_created_broker_starts_and_lets_its_user_in(tmp_path: Path) -> None:
    path = tmp_path / "shop"
    result = pyjms_broker_command("create", str(path))
    assert result.exit_code == 0, result.output
    password = re.search(r"password of the user admin is (\S+)", result.stdout)
    assert password is not None
    assert modes(path) == {
        "bin": 0o700,
        "bin/start.sh": 0o700,
        "data": 0o700,
        "broker.yaml": 0o600,
        "users.properties": 0o600,
        "groups.properties": 0o600,
        "pyjms-broker.service": 0o600,
    }
    assert password[1] not in "".join(
        each.read_text(encoding="utf-8") for each in path.rglob("*.*") if each.is_file()
    )
    config = path / "broker.yaml"
    text = config.read_text(encoding="utf-8")
    text = text.replace("0.0.0.0:61616", "0.0.0.0:0").replace("port: 8161", "port: 0")
    config.write_text(text, encoding="utf-8")
    assert load_broker_settings(config, environ={}).web is not None
    with broker_process("--config", str(config), cwd=tmp_path) as process:
        url = re.sub(r"//[^:]+:", "//127.0.0.1:", listening_at(process))
        await exchange_message(url, "q", "admin", password[1])
        stopped(process)
    assert (path / "data" / "shop" / "KahaDB" / "db-1.log").exists()


def test_a_created_broker_offers_the_connectors_of_activemq(tmp_path: Path) -> None:
    create_instance(tmp_path / "shop")
    config = tmp_path / "shop" / "broker.yaml"
    text = re.sub(
        r"(?m)^  # (- name: (?:amqp|stomp|mqtt|ws)\n)  # (  uri)", r"  \1  \2", config.read_text()
    )
    config.write_text(text)
    settings = load_broker_settings(config, environ={})
    assert {each.name: str(each.uri) for each in settings.connectors or ()} == {
        "openwire": "tcp://0.0.0.0:61616",
        "amqp": "amqp://0.0.0.0:5672?transport.transformer=jms",
        "stomp": "stomp://0.0.0.0:61613",
        "mqtt": "mqtt://0.0.0.0:1883",
        "ws": "ws://0.0.0.0:61614",
    }
    assert [each.uri.scheme for each in make_service(Source(config=config)).connectors] == [
        *("tcp", "amqp", "stomp", "mqtt", "ws"),
    ]


def test_a_created_broker_has_no_web_server_without_its_packages(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("importlib.util.find_spec", return_value=None)
    create_instance(tmp_path / "shop")
    assert load_broker_settings(tmp_path / "shop" / "broker.yaml", environ={}).web is None


def test_the_configuration_may_come_from_activemq(tmp_path: Path) -> None:
    source = DATA / "activemq-conf" / "debian-main.xml"
    path = tmp_path / "shop"
    result = pyjms_broker_command("create", str(path), "--amqconf", str(source))
    assert result.exit_code == 0, result.output
    config = load_broker_settings(path / "broker.yaml", environ={})
    assert config.data_directory == path / "data"
    assert config.persistence is not None
    assert config.persistence.directory == path / "data" / "kahadb"
    assert (path / "broker.yaml").stat().st_mode & 0o777 == 0o600
    assert "<broker useJmx>: note" in result.stderr
    assert "password" not in result.stdout
    assert not (path / "users.properties").exists()

    other = tmp_path / "other"
    (tmp_path / "x.xml").write_text("<broker>\n<proxyConnectors/></broker>", encoding="utf-8")
    result = pyjms_broker_command("create", str(other), "--amqconf", str(tmp_path / "x.xml"))
    assert result.exit_code == 1
    assert "x.xml:2: <proxyConnectors>: not converted" in result.stderr
    assert (other / "broker.yaml").exists()


def test_a_directory_with_files_is_refused_without_force(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    result = pyjms_broker_command("create", str(tmp_path))
    assert result.exit_code == 2
    assert "is not empty" in result.stderr
    create_instance(tmp_path, force=True)
    first = (tmp_path / "users.properties").read_text(encoding="utf-8")
    create_instance(tmp_path, force=True)
    assert (tmp_path / "users.properties").read_text(encoding="utf-8") != first
    strange = pyjms_broker_command("create", str(tmp_path / "a b"))
    assert strange.exit_code == 2
    assert "has characters other than" in strange.stderr


@pytest.mark.parametrize("name", ["2026", "1e3", "no", "null"])
def test_the_name_of_a_directory_is_a_text(tmp_path: Path, name: str) -> None:
    create_instance(tmp_path / name)
    assert load_broker_settings(tmp_path / name / "broker.yaml", environ={}).broker_name == name


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    path = tmp_path / "shop"
    create_instance(path)
    unit = (path / "pyjms-broker.service").read_text(encoding="utf-8")
    assert "@" not in unit
    sections = re.findall(r"^\[(\w+)\]$", unit, re.MULTILINE)
    assert sections == ["Unit", "Service", "Install"]
    for line in unit.splitlines():
        assert not line or line.startswith(("#", "[")) or re.match(r"[A-Z]\w+=", line), line
    assert f"--config {path}/broker.yaml" in unit
    assert "Type=notify" in unit


@pytest.mark.parametrize("abstract", [False, True])
async def test_the_service_manager_is_notified(tmp_path: Path, abstract: bool) -> None:
    address = f"\0pyjms-{free_port()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(20)
        variables = {"NOTIFY_SOCKET": address.replace("\0", "@")}
        arguments = ("--ephemeral", "--openwire", "127.0.0.1:0")
        with broker_process(*arguments, cwd=tmp_path, variables=variables) as process:
            assert manager.recv(100) == b"READY=1"
            await exchange_message(listening_at(process), "q")  # at once
            process.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            process.wait(20)


def test_a_manager_that_has_ended_does_not_stop_the_broker(tmp_path: Path) -> None:
    variables = {"NOTIFY_SOCKET": str(tmp_path / "none")}
    arguments = ("--ephemeral", "--openwire", "127.0.0.1:0")
    with broker_process(*arguments, cwd=tmp_path, variables=variables) as process:
        listening_at(process)
        assert "could not be notified of READY=1" in stopped(process)
