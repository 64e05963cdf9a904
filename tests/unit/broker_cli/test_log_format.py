"""Names from clients in the broker's log."""

from __future__ import annotations

import logging
import sys

import pytest

from pyjms_broker.cli.start import LineFormatter

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
