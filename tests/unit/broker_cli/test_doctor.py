"""`pyjms broker doctor`: each check says what is right and what is not, with advice."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.brokers.commands import broker_process, listening_at, stopped
from tests.kit.processes.command_line import Result

Doctor = Callable[..., dict[str, list[dict[str, Any]]]]

USERS = """
plugins:
  - type: properties_authentication
    users_file: {folder}/users.properties
    groups_file: {folder}/groups.properties
"""


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Return the broker.yaml of a broker with a directory, whose connector has any port."""
    file = tmp_path / "broker.yaml"
    file.write_text(
        f'broker_name: shop\ndata_directory: {tmp_path}/data\nconnectors: ["tcp://127.0.0.1:0"]\n'
        "system_usage: {memory_limit: 64000000}\n"
    )
    file.chmod(0o600)
    return file


@pytest.fixture
def findings(pyjms_broker: Callable[..., Result], configuration: Path) -> Doctor:
    """Run the command, and return the findings by check."""

    def run(exit_code: int = 0) -> dict[str, list[dict[str, Any]]]:
        done = pyjms_broker("doctor", "--config", configuration, "--json")
        assert done.exit_code == exit_code, done.stdout + done.stderr
        found: dict[str, list[dict[str, Any]]] = {}
        for line in done.stdout.splitlines():
            each = json.loads(line)
            found.setdefault(each.pop("check"), []).append(each)
        return found

    return run


def add(configuration: Path, text: str) -> None:
    with configuration.open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_healthy_machine(findings: Doctor) -> None:
    found = findings()
    assert list(found) == [
        *("broker", "directory", "secrets", "disk", "space", "memory", "handles", "clock"),
    ]
    for check in ("broker", "secrets", "memory", "handles"):
        assert [(each["state"], each["advice"]) for each in found[check]] == [("ok", "")]
    assert found["broker"][0]["text"].startswith("broker shop, ")
    assert " ms " in found["disk"][-1]["text"]


def test_the_table_ends_with_advice(
    pyjms_broker: Callable[..., Result], configuration: Path
) -> None:
    configuration.chmod(0o644)
    done = pyjms_broker("doctor", "--config", configuration)
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["state", "check", "found"]
    assert f"  secrets: chmod 600 {configuration}" in lines
    assert done.exit_code == 0


def test_a_wrong_configuration(pyjms_broker: Callable[..., Result], configuration: Path) -> None:
    add(configuration, "brokername: shop\n")
    done = pyjms_broker("doctor", "--config", configuration)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "brokername" in done.stderr


def test_others_who_can_read_the_store(findings: Doctor, tmp_path: Path) -> None:
    (tmp_path / "data" / "shop" / "KahaDB").mkdir(parents=True, mode=0o755)
    (found,) = findings()["directory"]
    assert (found["state"], found["advice"]) == (
        "warning",
        f"chmod 700 {tmp_path}/data/shop/KahaDB",
    )


def test_a_check_that_cannot_read_its_files_hides_no_others(
    findings: Doctor, tmp_path: Path
) -> None:
    (tmp_path / "data" / "shop").mkdir(parents=True)
    (tmp_path / "data" / "shop" / "KahaDB").write_text("in the way")
    found = findings(exit_code=1)
    (index,) = found["index"]
    assert (index["state"], "shop/KahaDB: Not a directory" in index["text"]) == ("FAILED", True)
    assert [*found][-1] == "clock"


def test_files_of_users(findings: Doctor, configuration: Path, tmp_path: Path) -> None:
    add(configuration, USERS.format(folder=tmp_path))
    (tmp_path / "users.properties").write_text("admin=a\n")
    (tmp_path / "users.properties").chmod(0o640)
    (tmp_path / "groups.properties").write_text("admins=admin\n")
    (tmp_path / "groups.properties").chmod(0o600)
    states = {each["text"].split()[0]: each["state"] for each in findings()["secrets"]}
    assert states == {
        str(configuration): "ok",
        str(tmp_path / "users.properties"): "warning",
        str(tmp_path / "groups.properties"): "ok",
    }


def test_a_port_of_another_program(findings: Doctor, configuration: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        text = configuration.read_text()
        configuration.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        (found,) = findings(exit_code=1)["ports"]
    assert (found["state"], f"127.0.0.1:{port}" in found["text"]) == ("FAILED", True)
    (found,) = findings()["ports"]
    assert (found["state"], found["text"].endswith(" is free")) == ("ok", True)


def test_a_memory_limit_near_all_memory(findings: Doctor, configuration: Path) -> None:
    text = configuration.read_text()
    configuration.write_text(text.replace("64000000", "90%"))
    (found,) = findings()["memory"]
    assert (found["state"], "70%" in found["advice"]) == ("warning", True)


def test_more_connections_than_file_handles(findings: Doctor, configuration: Path) -> None:
    text = configuration.read_text()
    configuration.write_text(text.replace("127.0.0.1:0", "127.0.0.1:0?maximumConnections=10000000"))
    (found,) = findings()["handles"]
    assert (found["state"], "LimitNOFILE=" in found["advice"]) == ("warning", True)


@pytest.fixture
def store(configuration: Path, tmp_path: Path) -> Path:
    """Start the broker of the configuration, and stop it; return the directory of its store."""
    with broker_process("--config", str(configuration), cwd=tmp_path) as process:
        listening_at(process)
        stopped(process)
    return tmp_path / "data" / "shop" / "KahaDB"


def test_a_store_whose_broker_was_stopped(findings: Doctor, store: Path) -> None:
    (found,) = findings()["index"]
    assert found["text"] == "the index is as new as the journal"


def test_a_store_without_its_index(findings: Doctor, store: Path) -> None:
    for file in store.glob("pyjms-index.db*"):
        file.unlink()
    (found,) = findings()["index"]
    assert (found["state"], found["advice"]) == (
        "warning",
        f"make the index before: pyjms broker journal rebuild {store}",
    )


def test_a_store_that_activemq_has_used(findings: Doctor, store: Path) -> None:
    (store / "db.data").write_bytes(b"")
    (found,) = findings()["index"]
    assert found["text"].startswith("ActiveMQ has used this store last")


def test_a_clock_that_was_set_back(findings: Doctor, store: Path) -> None:
    (segment, *_) = store.glob("db-*.log")
    later = time.time() + 7200
    os.utime(segment, (later, later))
    (found,) = findings(exit_code=1)["clock"]
    assert (found["state"], "before the last change of the store" in found["text"]) == (
        "FAILED",
        True,
    )


def test_a_broker_that_runs(findings: Doctor, configuration: Path, tmp_path: Path) -> None:
    with broker_process("--config", str(configuration), cwd=tmp_path) as process:
        url = listening_at(process)
        port = url.rpartition(":")[2]
        text = configuration.read_text()
        configuration.write_text(text.replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        found = findings()
        assert f"process {process.pid} runs on its store" in found["broker"][0]["text"]
        assert f"a broker runs (process {process.pid})" in found["ports"][0]["text"]
        assert "index" not in found
        stopped(process)
