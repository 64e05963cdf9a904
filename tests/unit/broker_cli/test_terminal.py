"""Progress and tables of the tools."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pyjms.cli.terminal import in_bytes, plural, progress, table
from tests.kit.stores.folders import Folder


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (32 << 20, "32.0 MiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_readable_sizes(size: int, text: str) -> None:
    assert in_bytes(size) == text


def test_numbers_are_right_aligned_and_lines_have_no_trailing_spaces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table(("what", "count", "why"), [("a", 5, "x"), ("long", 1000, "")])
    table(("none",), [])
    assert capsys.readouterr().out == "what  count  why\na         5  x\nlong   1000\n"
    assert plural(1, "message") == "1 message"
    assert plural(0, "message") == "0 messages"


@pytest.mark.parametrize(
    ("total", "lines"),
    [
        (25_000, ["doing: 10000 of 25000", "doing: 20000 of 25000"]),
        (None, ["doing: 10000", "doing: 20000"]),
    ],
)
def test_without_a_terminal_progress_is_an_occasional_line(
    total: int | None, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("doing", total) as advance:
        for _ in range(25):
            advance(1000)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == lines
    assert captured.out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal_progress_is_a_bar_on_standard_error(filled: Folder) -> None:
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyjms_broker", "journal", "audit", str(filled.path)],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
            text=True,
            check=True,
            timeout=50,
        )
        os.close(theirs)
        shown = os.read(ours, 65536)
    finally:
        os.close(ours)
    assert b"reading" in shown
    assert b"\x1b[" in shown
    assert "\x1b" not in done.stdout
    assert done.stdout.startswith(f"{filled.path}: 4 segments")
