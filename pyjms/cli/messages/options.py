"""The shared options of `pyjms send`, `receive` and `browse`, and options with long definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from pyjms.cli.durations import duration_option

__all__ = [
    "Body",
    "BodyFile",
    "Delay",
    "DestinationArgument",
    "Headers",
    "Json",
    "MessageTimeout",
    "Properties",
    "Selector",
    "TimeToLive",
    "flag",
    "limit_option",
]


def limit_option(what: str) -> Any:
    """Return the option for the maximum number of messages; `what` is the command's verb."""
    return typer.Option("--limit", "-n", min=1, help=f"{what} at most this number of messages.")


def flag(name: str, text: str) -> Any:
    """Return an option that is on or off; `text` is its help."""
    return typer.Option(name, help=text)


DestinationArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="queue://NAME, topic://NAME, or a queue NAME.")
]
Selector: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--selector", "-s", metavar="SELECTOR", help="Only messages that this selector matches."
    ),
]
MessageTimeout: TypeAlias = Annotated[
    float, duration_option("--timeout", text="Maximum wait for each message.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, with all headers.")
]
Headers: TypeAlias = Annotated[
    bool, typer.Option("--headers", "-H", help="Print headers and properties above each body.")
]
Body: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="BODY", help="The body. Default: --file, or the standard input."),
]
BodyFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        allow_dash=True,
        help="The file with the body; - is the standard input.",
    ),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--property",
        metavar="NAME[:TYPE]=VALUE",
        help="A property; may be repeated. Types: string, boolean, byte, short, int, long, "
        "float, double.",
    ),
]
TimeToLive: TypeAlias = Annotated[
    float | None, duration_option("--ttl", text="Time to live, such as 5m.")
]
Delay: TypeAlias = Annotated[
    float | None,
    duration_option(text="Delivery delay; requires the broker's scheduler (schedulerSupport)."),
]
