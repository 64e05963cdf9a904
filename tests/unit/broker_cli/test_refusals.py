"""What `pyjms broker start` refuses: one sentence on stderr, exit code 2."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms_broker.cli.start import Source, run
from tests.kit.processes.command_line import pyjms_broker_command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ephemeral", "--data", "somewhere"], "--data and --ephemeral contradict each other"),
        (["--ephemeral", "--openwire", "127.0.0.1:http"], "port"),
        (["--ephemeral", "--openwire", "127.0.0.1:0?colour=red"], "colour"),
        (["--ephemeral", "--web", "localhost"], "--web localhost: that is no address"),
        (["--ephemeral", "--web", "127.0.0.1:65536"], "HOST:PORT"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_invalid_options_are_refused_in_one_line(arguments: list[str], sentence: str) -> None:
    result = pyjms_broker_command("start", *arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    assert gc.isenabled()  # again: it is not while the command loads its modules


@pytest.mark.parametrize("command", ["list", "query", "bstat", "dstat", "purge", "status"])
@pytest.mark.parametrize(
    ("options", "url"),
    [
        (["--jmxurl", "service:jmx:rmi:///jndi/rmi://mq.test:1099/jmxrmi"], "http://mq.test:8161"),
        (["--jmxurl", "x"], "http://localhost:8161/api/jolokia"),
        (["--jmxlocal"], "http://localhost:8161/api/jolokia"),
        (["--pid", "1"], "http://localhost:8161/api/jolokia"),
    ],
)
def test_options_for_java_name_the_other_way(command: str, options: list[str], url: str) -> None:
    names = ["q"] if command == "purge" else []
    result = pyjms_broker_command(command, *options, *names)
    assert result.exit_code != 0
    assert f"{options[0]}: JMX is available to Java programs only" in result.stderr
    assert f"--url {url}" in " ".join(result.stderr.split())


def test_a_data_directory_for_a_non_persistent_broker_is_refused(tmp_path: Path) -> None:
    """It would store messages there although its configuration forbids that."""
    config = tmp_path / "broker.yaml"
    config.write_text("persistent: false\n")
    arguments = ["start", "--config", str(config), "--data", str(tmp_path / "x")]
    result = pyjms_broker_command(*arguments, "--openwire", "127.0.0.1:http")
    assert result.exit_code == 2, result.output
    assert "--data contradicts persistent: false in the configuration" in result.stderr
    assert not (tmp_path / "x").exists()


def test_help_describes_the_default_connector() -> None:
    said = " ".join(pyjms_broker_command("start", "--help").stdout.split())
    assert "Without --openwire and without connectors in the configuration, it listens on" in said


def test_help_names_every_option_and_loads_no_broker() -> None:
    script = (
        "import sys\n"
        "from pyjms_broker.cli.main import app\n"
        "heavy = {'anyio', 'lark', 'pyjms_broker.service', 'pyjms_broker.region'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "app(['start', '--help'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    for option in ("--config", "--data", "--ephemeral", "--openwire", "--name"):
        assert option in done.stdout


def test_a_port_in_use_is_a_failure_and_not_an_invalid_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = pyjms_broker_command("start", "--ephemeral", "--openwire", f"127.0.0.1:{port}")
    assert result.exit_code == 1, result.output
    assert f"127.0.0.1:{port}" in result.stderr


def test_garbage_is_collected_while_the_broker_runs() -> None:
    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            code = run(Source(), data=None, ephemeral=True, openwire=address, name=None)
        assert (code, gc.isenabled()) == (1, True)
    finally:
        gc.enable()
