"""Print objects as blocks of `Attribute = value`, like ActiveMQ's commands."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from pyjms_broker.cli.terminal import json_line, safe_text

__all__ = ["plain", "print_block"]


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
