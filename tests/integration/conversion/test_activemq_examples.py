"""ActiveMQ's example configurations can be converted, and the resulting brokers serve clients."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.multicast import memory_multicast
from tests.kit.clients.checks import exchange_message
from tests.kit.data import DATA
from tests.kit.processes.command_line import pyjms_broker_command

__all__ = ["memory_multicast"]

_JETTY = "<import resource>"
_USERS = ["-D", "activemq.password=manager", "-D", "guest.password=password"]
EXAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "debian-main": ([], []),
    "activemq": ([], []),
    "activemq-throughput": ([], ["<transportConnector uri>"]),
    "activemq-jdbc": ([], ["<transportConnector uri>"]),
    "activemq-demo": (
        [],
        [
            "<sslContext keyStore>",
            "<sslContext trustStore>",
            "<sslContext>",
            _JETTY,
            _JETTY,
        ],
    ),
    "activemq-security": (
        _USERS,
        ["<bean>", "<bean>", "<managementContext createConnector>", _JETTY],
    ),
}
"""Name of the file: options of the command, and what cannot be converted."""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A copy of the examples, in ActiveMQ's directory layout."""
    copied = tmp_path / "conf"
    shutil.copytree(DATA / "activemq-conf", copied)
    return copied


@pytest.mark.usefixtures("memory_multicast")  # one announces itself to its network
@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_converts_and_starts(
    name: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, lost = EXAMPLES[name]
    monkeypatch.chdir(conf)  # one of them names ../data
    output = tmp_path / "broker.yaml"
    result = pyjms_broker_command(
        "config", "convert", str(conf / f"{name}.xml"), "-o", str(output), *options
    )
    assert result.exit_code == (1 if lost else 0), result.output
    found = re.findall(r": (<[^>]+>): not converted: ", result.stderr)
    assert found == lost
    assert output.stat().st_mode & 0o777 == 0o600

    text = output.read_text(encoding="utf-8")
    named = [line for line in result.stderr.splitlines() if ": not converted: " in line]
    assert [f"#   {line}" in text for line in named] == [True] * len(lost)
    # any free port of this machine, instead of those of the example
    text = re.sub(r"://(localhost|0\.0\.0\.0|127\.0\.0\.1):\d+", "://127.0.0.1:0", text)
    output.write_text(text, encoding="utf-8")
    async with BrokerService.from_settings(load_broker_settings(output, environ={})) as service:
        urls = [each.connect_uri for each in service.connectors if each.serves_openwire]
        assert urls
        for url in urls:
            login = ("system", "manager") if "security" in name else ()
            await exchange_message(url, "orders", *login)


def test_the_data_of_debians_example_is_where_activemq_has_it(conf: Path) -> None:
    result = pyjms_broker_command(
        "config", "convert", str(conf / "debian-main.xml"), "-D", "activemq.base=/var/lib/x"
    )
    assert result.exit_code == 0
    assert "data_directory: /var/lib/x/data\n" in result.stdout
    assert "  directory: /var/lib/x/data/kahadb\n" in result.stdout


def test_encrypted_values_are_named_and_their_users_left_out(conf: Path) -> None:
    result = pyjms_broker_command("config", "convert", str(conf / "activemq-security.xml"))
    assert result.exit_code == 1
    assert "${activemq.password} has an encrypted value" in result.stderr
    assert "mYRkg" not in result.output


def test_files_are_replaced_only_with_force(conf: Path, tmp_path: Path) -> None:
    output = tmp_path / "broker.yaml"
    output.write_text("mine", encoding="utf-8")
    command = ["config", "convert", str(conf / "debian-main.xml"), "-o", str(output)]
    result = pyjms_broker_command(*command)
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert output.read_text(encoding="utf-8") == "mine"
    assert pyjms_broker_command(*command, "--force").exit_code == 0
    assert output.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["missing.xml"], "cannot be read"), (["debian-main.xml", "-D", "x"], "is not NAME=VALUE")],
    ids=["missing", "definition"],
)
def test_what_cannot_be_converted_at_all_is_exit_code_2(
    conf: Path, arguments: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(conf)
    result = pyjms_broker_command("config", "convert", *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
