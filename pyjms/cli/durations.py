"""Durations as options: `500ms`, `30s`, `5m`, `1h`; seconds once they are read."""

from __future__ import annotations

import typer

__all__ = ["duration"]


def duration(text: object) -> float:
    """Return the seconds of an option's text; the parser of duration options."""
    from pyjms._yaml.durations import read_duration

    if isinstance(text, float):  # a default value
        return text
    try:
        found = read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if found < 0:
        raise typer.BadParameter("a duration cannot be negative here")
    return found
