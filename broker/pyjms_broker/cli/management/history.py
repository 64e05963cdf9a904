"""`pyjms broker history`: what a broker or a destination was like in the last hour or day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from pyjms.cli.options import duration_option, read_destination
from pyjms.cli.terminal import in_bytes, json_line, table
from pyjms.errors import ConfigurationException
from pyjms_broker.cli.management.client import (
    JolokiaClient,
    Json,
    brokers,
    find_destinations,
    management_command,
)

_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_ROWS: Final = 30
"""The number of rows without --step."""
_TITLES: Final = {"in": "in/s", "out": "out/s"}
_RATES: Final = frozenset(_TITLES)
_BYTES: Final = frozenset(("memory", "store"))


@management_command("history")
def history(
    client: JolokiaClient,
    destination: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUEUE]", help="A queue or topic://NAME. Default: the whole broker."
        ),
    ] = None,
    since: Annotated[float, duration_option("--since", text="How far back, at most 24h.")] = _HOUR,
    step: Annotated[
        float | None,
        duration_option("--step", text="Time of a row. Default: a thirtieth of --since."),
    ] = None,
    json: Json = False,
) -> None:
    """Print depth, messages a second in and out, consumers and memory over time, in UTC.

    Rates are averages of a row's time, the other numbers the highest. There is an hour in steps of
    5 s, and a day in steps of a minute, of the broker and its busiest destinations.
    """
    if not 0 < since <= _DAY:
        raise ConfigurationException("--since: a day is recorded", hint="write 30m, 1h or 24h")
    name = "hour" if since <= _HOUR else "day"
    for view in _views(client, destination):
        found = client.execute(view, "history", name)
        assert isinstance(found, Mapping), "the operation returns a table"
        _show(found, since, since / _ROWS if step is None else step, as_json=json)


def _views(client: JolokiaClient, name: str | None) -> list[str]:
    if name is None:
        return list(brokers(client, "BrokerName"))
    wanted = read_destination(name)
    kind = "Topic" if wanted.is_topic else "Queue"
    return list(find_destinations(client, [wanted.physical_name], kind))


def _show(found: Mapping[str, object], since: float, step: float, *, as_json: bool) -> None:
    columns = {name: values for name, values in found.items() if isinstance(values, list)}
    start, own = found["start"], found["step"]
    assert isinstance(start, int), "milliseconds"
    assert isinstance(own, int), "seconds"
    size = max(1, round(step / own))  # so many numbers are a row
    count = min(round(since / own), len(columns["depth"]))
    rows = list(_rows(columns, len(columns["depth"]) - count, size))
    if as_json:
        for first, row in rows:
            json_line({"time": start + first * own * 1000, **row})
        return
    table(
        ["time", *(_TITLES.get(name, name) for name in columns)],
        [
            [_time(start + first * own * 1000), *(_cell(*each) for each in row.items())]
            for first, row in rows
        ],
    )
    if not rows:
        typer.echo("nothing was recorded in this time", err=True)


def _rows(
    columns: Mapping[str, Sequence[float | None]], begin: int, size: int
) -> Iterator[tuple[int, dict[str, float | None]]]:
    """Iterate over rows from the first known one on, with the indices of their first numbers."""
    is_known = False
    for first in range(begin, len(columns["depth"]), size):
        row = {name: _of(name, values[first : first + size]) for name, values in columns.items()}
        is_known = is_known or row["depth"] is not None
        if is_known:
            yield first, row


def _of(name: str, values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    if not known:
        return None
    return round(sum(known) / len(known), 1) if name in _RATES else max(known)


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name in _BYTES:
        return in_bytes(int(value))
    return f"{value:.1f}" if name in _RATES else str(int(value))
