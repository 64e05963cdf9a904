"""Names from clients in the broker's log."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pyjms_broker.cli.start import LineFormatter
from tests.kit.processes.command_line import Result
from tests.kit.processes.forked_python import run_python

FORMATTER = LineFormatter("%(levelname)s %(message)s")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a\nERROR forged", r"a\nERROR forged"),
        ("a\r\x1b[2J", r"a\r\x1b[2J"),
        ("\x9b31m\u2028", r"\x9b31m\u2028"),
        ("gr\u00fc\u00df \U0001f600", "gr\u00fc\u00df \U0001f600"),
    ],
)
def test_control_characters_are_escaped(name: str, expected: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "Client %s", (name,), None)
    assert FORMATTER.format(record) == f"INFO Client {expected}"


def test_lines_of_a_traceback_are_indented() -> None:
    try:
        raise ValueError("a\nERROR forged \x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.INFO, "", 0, "Failed", (), sys.exc_info())
    first, *others = FORMATTER.format(record).split("\n")
    assert first == "INFO Failed"
    assert all(line.startswith("    ") for line in others)
    assert "\x1b" not in "".join(others)


CODE = """
import logging
from pathlib import Path
from pyjms_broker.cli.start import Source, run
from pyjms_broker.security.audit import audit
from pyjms_broker.service import BrokerService

started = BrokerService.start

async def start(self):
    await started(self)
    audit("eve\\n", "10.0.0.1", "log in", "refused", level=logging.WARNING)
    self.stop_soon()

BrokerService.start = start
options = {options!r}
run(Source(config=Path("broker.yaml")), data=None, ephemeral=True, openwire=None, name="a", **options)
"""


def run_broker(folder: Path, logging: str, **options: str | list[str]) -> str:
    """Run a broker in a process of its own, which owns the log; return its standard error."""
    text = f"connectors: []\nlogging: {logging}\n"
    (folder / "broker.yaml").write_text(text, encoding="utf-8")
    done = run_python("-c", CODE.format(options=options), cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_json_lines_have_the_fields_of_the_audit_log(tmp_path: Path) -> None:
    written = run_broker(tmp_path, "{format: json, root: WARNING}")
    (line,) = [json.loads(each) for each in written.splitlines()]
    assert (
        line.items()
        >= {
            "level": "WARNING",
            "logger": "pyjms_broker.audit",
            "user": "eve\\n",
            "address": "10.0.0.1",
            "act": "log in",
            "result": "refused",
        }.items()
    )


def test_options_come_before_the_file(tmp_path: Path) -> None:
    written = run_broker(
        tmp_path, "{format: text, root: ERROR}", log_format="json", log_level=["warning"]
    )
    assert json.loads(written)["logger"] == "pyjms_broker.audit"


def test_the_log_and_the_audit_log_have_files(tmp_path: Path) -> None:
    written = run_broker(
        tmp_path, "{stderr: false, file: log/broker.log, audit: {path: audit.log, format: json}}"
    )
    assert written == ""
    (line,) = (tmp_path / "audit.log").read_text("utf-8").splitlines()
    assert json.loads(line)["result"] == "refused"
    log = (tmp_path / "log" / "broker.log").read_text("utf-8")
    assert ("Broker a stopped" in log, "refused" in log) == (True, False)


def test_a_fresh_broker_starts_without_a_warning(tmp_path: Path) -> None:
    written = run_broker(tmp_path, "{pyjms_broker.audit: ERROR}")
    assert "Broker a started" in written
    assert "WARNING" not in written


def test_an_unknown_level_is_refused(pyjms_broker: Callable[..., Result]) -> None:
    done = pyjms_broker("start", "--ephemeral", "--log-level", "loud")
    assert (done.exit_code, "--log-level loud: there is no such level" in done.stderr) == (2, True)
