"""The examples under `config/examples` start, and serve clients."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

from pyjms_broker.cli.config import create_instance
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.commands import broker_process, listening_at, stopped
from tests.kit.clients.checks import exchange_message
from tests.kit.processes.children import ROOT
from tests.kit.tls import CertificateFiles

CONFIG = ROOT / "config"
EXAMPLES = CONFIG / "examples"


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.iterdir()}
    assert names == {"embedded", "server", "master-slave", "secured"}
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert [name for name in names if f"../config/examples/{name}.yaml" not in text] == []


async def test_embedded(tmp_path: Path) -> None:
    environment = {"BROKER_DATA": str(tmp_path)}
    settings = load_broker_settings(EXAMPLES / "embedded.yaml", environ=environment)
    async with BrokerService.from_settings(settings) as service:
        assert service.connectors == []
        await exchange_message("vm://app?create=false", "q")
    assert (tmp_path / "app" / "KahaDB").is_dir()


async def test_server(tmp_path: Path) -> None:
    variables = {"BROKER_DATA": str(tmp_path), "OPENWIRE_PORT": "0", "STOMP_PORT": "0"}
    arguments = ("--config", str(EXAMPLES / "server.yaml"))
    with broker_process(*arguments, cwd=tmp_path, variables=variables) as process:
        url = listening_at(process, "openwire")
        assert listening_at(process, "stomp").startswith("stomp://")
        await exchange_message(url, "q")
        stopped(process)


async def test_master_and_slave(tmp_path: Path) -> None:
    variables = {
        "BROKER_PORT": "0",
        "BROKER_STORE": str(tmp_path / "store"),
        "BROKER_SCHEDULER": str(tmp_path / "scheduler"),
    }
    arguments = ("--config", str(EXAMPLES / "master-slave.yaml"))
    with broker_process(*arguments, cwd=tmp_path, variables=variables) as master:
        await exchange_message(listening_at(master), "q")
        with broker_process(*arguments, cwd=tmp_path, variables=variables) as slave:
            assert slave.stderr is not None
            for line in slave.stderr:
                if "is locked by another server" in line:
                    break
            stopped(master)
            await exchange_message(listening_at(slave), "q")
            stopped(slave)


async def test_secured(tmp_path: Path, files: CertificateFiles) -> None:
    password = create_instance(tmp_path / "made")  # for its users
    variables = {
        "BROKER_DATA": str(tmp_path),
        "SSL_PORT": "0",
        "KEY_STORE": files.issue(),
        "USERS_FILE": str(tmp_path / "made" / "users.properties"),
        "GROUPS_FILE": str(tmp_path / "made" / "groups.properties"),
    }
    arguments = ("--config", str(EXAMPLES / "secured.yaml"))
    with broker_process(*arguments, cwd=tmp_path, variables=variables) as process:
        port = listening_at(process).rpartition(":")[2]
        url = f"ssl://localhost:{port}?ssl.trustStore={files.trust}"
        await exchange_message(url, "orders.new", "admin", password)
        stopped(process)


def test_the_image_runs_as_a_user_and_keeps_its_data() -> None:
    text = (CONFIG / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    final = text.rpartition("\nFROM ")[2]
    instructions = dict(re.findall(r"^([A-Z]+) (.*)$", final, re.MULTILINE))
    assert instructions["USER"] == "10001"
    assert instructions["VOLUME"] == instructions["WORKDIR"] == "/var/lib/pyjms"
    assert instructions["EXPOSE"] == "61616"
    check = json.loads(instructions["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[2], "Containerfile", "exec")
    command = json.loads(instructions["CMD"])
    assert command[:2] == ["sh", "-c"]
    subprocess.run(["sh", "-n", "-c", command[2]], check=True)
    assert "exec pyjms broker start" in command[2]  # it gets SIGTERM itself


def test_the_image_is_built_from_what_there_is() -> None:
    text = (CONFIG / "Containerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (extras,) = re.findall(r"pip install .* \"\.\[(.*)\]\"", text)
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    assert "pyjms" in project["project"]["scripts"]
    (python,) = {*re.findall(r"library/python:([0-9.]+)-slim", text)}
    assert f"Programming Language :: Python :: {python}" in project["project"]["classifiers"]
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    assert [name for name in sent if not (ROOT / name).exists()] == []
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert sent == needed | {Path(each).parts[0] for each in wheel}


def test_the_first_start_in_a_container_listens_at_the_port_that_is_checked(tmp_path: Path) -> None:
    text = (CONFIG / "Containerfile").read_text(encoding="utf-8")
    command = text.rpartition("CMD ")[2]
    assert "pyjms broker create broker;" in command
    assert "--config broker/broker.yaml" in command
    create_instance(tmp_path / "broker")
    settings = load_broker_settings(tmp_path / "broker" / "broker.yaml")
    assert "('127.0.0.1', 61616)" in text
    assert [connector.uri for connector in settings.connectors] == ["tcp://0.0.0.0:61616"]
