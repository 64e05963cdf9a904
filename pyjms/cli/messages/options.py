"""Options that `pyjms send`, `receive` and `browse` share, and long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from pyjms.cli.durations import duration

__all__ = [
    "Body",
    "BodyFile",
    "Delay",
    "DestinationArgument",
    "Headers",
    "Json",
    "Properties",
    "Selector",
    "TimeToLive",
]

DestinationArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="queue://NAME, topic://NAME, or a queue NAME.")
]
Selector: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--selector", "-s", metavar="SELECTOR", help="Only messages that this selector matches."
    ),
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
    float | None,
    typer.Option(
        "--ttl",
        parser=duration,
        metavar="DURATION",
        help="How long until the message expires, such as 5m.",
    ),
]
Delay: TypeAlias = Annotated[
    float | None,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long the broker waits before it delivers the message; needs its scheduler "
        "(schedulerSupport).",
    ),
]
