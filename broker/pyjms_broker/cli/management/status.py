"""`pyjms broker status` and `history`: whether a broker runs, checks, and what it was like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from pyjms.cli.options import duration_option, read_destination
from pyjms.cli.terminal import in_bytes, json_line, plural, safe_text, table, time_text
from pyjms.errors import ConfigurationException
from pyjms_broker.cli.management import client as jolokia

_SHOWN: Final = (
    *("BrokerName", "BrokerId", "BrokerVersion", "Uptime", "Slave", "CurrentConnectionsCount"),
    *("TotalMessageCount", "MemoryPercentUsage", "StorePercentUsage", "TempPercentUsage"),
)


class Check(StrEnum):
    """The checks of `status`."""

    ALL = "all"
    SLAVE = "slave"
    MEMORY = "memory"
    STORE = "store"
    TEMP = "temp"
    HEALTH = "health"


_CHECK_CODES: Final = {
    Check.SLAVE: 10,
    Check.MEMORY: 11,
    Check.STORE: 12,
    Check.TEMP: 13,
    Check.HEALTH: 14,
}


@jolokia.management_command("status")
def status(
    client: jolokia.JolokiaClient,
    check: Annotated[
        list[Check] | None,
        typer.Option("--check", help="Check this as well, with a line; may be repeated."),
    ] = None,
    at: Annotated[
        int, typer.Option("--at", min=1, max=100, help="The percentage at which a usage fails.")
    ] = 90,
    json: jolokia.Json = False,
) -> None:
    """Show whether a broker is running, with its version, uptime, message count and usage.

    The exit code is 0 if it is running, and 1 if not. The first check that fails gives another
    one: 10 slave, 11 memory, 12 store, 13 temp, 14 health. --check all runs all.
    """
    found = jolokia.brokers(client, *_SHOWN)
    for values in found.values():
        if json:
            json_line(values)
            continue
        state = "waits for its store's lock (slave)" if values.get("Slave") else "is running"
        typer.echo(
            f"Broker {safe_text(values.get('BrokerName'))} {state}:"
            f" version {safe_text(values.get('BrokerVersion'))},"
            f" for {safe_text(values.get('Uptime'))},"
            f" {plural(jolokia.number(values, 'CurrentConnectionsCount'), 'connection')},"
            f" {plural(jolokia.number(values, 'TotalMessageCount'), 'message')};"
            f" memory {values.get('MemoryPercentUsage')} %, store {values.get('StorePercentUsage')}"
            f" %, temp {values.get('TempPercentUsage')} %"
        )
    failed = [
        each
        for name, values in found.items()
        for each in _run_checks(
            client, jolokia.broker_of(name), values, check or [], at, as_json=json
        )
    ]
    if failed:
        raise typer.Exit(_CHECK_CODES[failed[0]])


def _run_checks(
    client: jolokia.JolokiaClient,
    broker: str,
    values: jolokia.Attributes,
    wanted: list[Check],
    limit: int,
    *,
    as_json: bool,
) -> list[Check]:
    """Print a line for each check; return those that failed, in the order of their codes."""
    failed = []
    for check in _CHECK_CODES:
        if check not in wanted and Check.ALL not in wanted:
            continue
        if check is Check.SLAVE:
            ok, text = not values.get("Slave"), "it waits for its store's lock"
            text = "it serves clients" if ok else text
        elif check is Check.HEALTH:
            views = client.read_all(
                jolokia.pattern(brokerName=broker, service="Health"), "CurrentStatus"
            )
            states = [str(each.get("CurrentStatus")) for each in views.values()]
            ok, text = all(each == "Good" for each in states), " ".join(states) or "not known"
        else:
            used = jolokia.number(values, f"{check.title()}PercentUsage")
            ok, text = used < limit, f"{used} % of its limit is used"
        if as_json:
            json_line({"check": check, "ok": ok, "text": text})
        else:
            typer.echo(f"{'ok    ' if ok else 'FAILED'} {check}: {safe_text(text)}")
        if not ok:
            failed.append(check)
    return failed


# --- `pyjms broker history`: what a broker or a destination was like in the last hour or day.

_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_ROWS: Final = 30
"""The number of rows without --step."""
_TITLES: Final = {"in": "in/s", "out": "out/s"}
_RATES: Final = frozenset(_TITLES)
_BYTES: Final = frozenset(("memory", "store"))


@jolokia.management_command("history")
def history(
    client: jolokia.JolokiaClient,
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
    json: jolokia.Json = False,
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


def _views(client: jolokia.JolokiaClient, name: str | None) -> list[str]:
    if name is None:
        return list(jolokia.brokers(client, "BrokerName"))
    wanted = read_destination(name)
    kind = "Topic" if wanted.is_topic else "Queue"
    return list(jolokia.find_destinations(client, [wanted.physical_name], kind))


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
            [time_text(start + first * own * 1000), *(_cell(*each) for each in row.items())]
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


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name in _BYTES:
        return in_bytes(int(value))
    return f"{value:.1f}" if name in _RATES else str(int(value))
