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


def test_json_lines_have_the_fields_of_the_audit_log(tmp_path: Path) -> None:
    """With levels by logger, in a process of its own: the log belongs to the whole process."""
    file = tmp_path / "broker.yaml"
    file.write_text("persistent: false\nconnectors: []\n", encoding="utf-8")
    code = (
        "import logging\n"
        "from pyjms_broker.cli.start import Source, run\n"
        "from pyjms_broker.security.audit import audit\n"
        "from pyjms_broker.service import BrokerService\n"
        "started = BrokerService.start\n"
        "async def start(self):\n"
        "    await started(self)\n"
        "    audit('eve\\n', '10.0.0.1', 'log in', 'refused', level=logging.WARNING)\n"
        "    self.stop_soon()\n"
        "BrokerService.start = start\n"
        "run(Source(), data=None, ephemeral=True, openwire='127.0.0.1:0', name='a',"
        " log_format='json', log_level=['warning'])\n"
    )
    done = run_python("-c", code, cwd=tmp_path)
    (line,) = [json.loads(each) for each in done.stderr.splitlines()]
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


def test_an_unknown_level_is_refused(pyjms_broker: Callable[..., Result]) -> None:
    done = pyjms_broker("start", "--ephemeral", "--log-level", "loud")
    assert (done.exit_code, "--log-level loud: there is no such level" in done.stderr) == (2, True)
