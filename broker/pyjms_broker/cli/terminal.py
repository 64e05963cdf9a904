"""Terminal output of `pyjms broker`: `pyjms.cli.terminal` with the command's name in errors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import typer

from pyjms.cli import terminal
from pyjms.cli.terminal import ExitCode, in_bytes, json_line, plural, progress, safe_text, table

__all__ = [
    "ExitCode",
    "in_bytes",
    "json_line",
    "one_line_errors",
    "plain",
    "plural",
    "print_block",
    "progress",
    "safe_text",
    "table",
]


def one_line_errors(command: str) -> AbstractContextManager[None]:
    """Print a known error as one line and exit with code 2 for invalid input, otherwise 1."""
    return terminal.one_line_errors(f"broker {command}")


def print_block(values: Mapping[str, object], *, as_json: bool) -> None:
    """Print an object: as one JSON object, or as lines followed by a blank line."""
    if as_json:
        json_line({name: plain(value) for name, value in values.items()})
        return
    for name, value in values.items():
        typer.echo(f"{safe_text(name)} = {_text(plain(value))}")
    typer.echo("")


def plain(value: object) -> object:
    """Return a value with Jolokia's object-name wrappers removed."""
    if isinstance(value, Mapping):
        if value.keys() == {"objectName"}:
            return value["objectName"]
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{safe_text(key)}={_text(each)}' for key, each in value.items())}}}"
    return safe_text(value)
