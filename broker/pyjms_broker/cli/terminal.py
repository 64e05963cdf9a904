"""Terminal output of `pyjms broker`: `pyjms.cli.terminal` with the command's name in errors."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyjms.cli import terminal
from pyjms.cli.terminal import ExitCode, in_bytes, json_line, plural, progress, safe_text, table

__all__ = [
    "ExitCode",
    "in_bytes",
    "json_line",
    "one_line_errors",
    "plural",
    "progress",
    "safe_text",
    "table",
]


def one_line_errors(command: str) -> AbstractContextManager[None]:
    """Print a known error as one line and exit with code 2 for invalid input, otherwise 1."""
    return terminal.one_line_errors(f"broker {command}")
