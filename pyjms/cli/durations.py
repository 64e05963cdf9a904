"""Durations as options: `500ms`, `30s`, `5m`, `1h`; seconds once they are read."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["duration_option"]


def duration_option(*names: str, text: str) -> Any:
    """Return an option for a non-negative duration; `text` is its help."""
    return typer.Option(*names, parser=_duration, metavar="DURATION", help=text)


def _duration(text: object) -> float:
    """Return the seconds of an option's text."""
    from pyjms._yaml.durations import read_duration

    if isinstance(text, float):  # a default value
        return text
    try:
        found = read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if found < 0:
        raise typer.BadParameter("the duration must not be negative")
    return found
