"""`pyjms broker status`: whether a broker runs, and checks for programs that watch it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from pyjms.cli.terminal import json_line, plural, safe_text
from pyjms_broker.cli.management.client import (
    Attributes,
    JolokiaClient,
    Json,
    broker_of,
    brokers,
    management_command,
    number,
    pattern,
)

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


@management_command("status")
def status(
    client: JolokiaClient,
    check: Annotated[
        list[Check] | None,
        typer.Option("--check", help="Check this as well, with a line; may be repeated."),
    ] = None,
    at: Annotated[
        int, typer.Option("--at", min=1, max=100, help="The percentage at which a usage fails.")
    ] = 90,
    json: Json = False,
) -> None:
    """Show whether a broker is running, with its version, uptime, message count and usage.

    The exit code is 0 if it is running, and 1 if not. The first check that fails gives another
    one: 10 slave, 11 memory, 12 store, 13 temp, 14 health. --check all runs all.
    """
    found = brokers(client, *_SHOWN)
    for values in found.values():
        if json:
            json_line(values)
            continue
        state = "waits for its store's lock (slave)" if values.get("Slave") else "is running"
        typer.echo(
            f"Broker {safe_text(values.get('BrokerName'))} {state}:"
            f" version {safe_text(values.get('BrokerVersion'))},"
            f" for {safe_text(values.get('Uptime'))},"
            f" {plural(number(values, 'CurrentConnectionsCount'), 'connection')},"
            f" {plural(number(values, 'TotalMessageCount'), 'message')};"
            f" memory {values.get('MemoryPercentUsage')} %, store {values.get('StorePercentUsage')}"
            f" %, temp {values.get('TempPercentUsage')} %"
        )
    failed = [
        each
        for name, values in found.items()
        for each in _run_checks(client, broker_of(name), values, check or [], at, as_json=json)
    ]
    if failed:
        raise typer.Exit(_CHECK_CODES[failed[0]])


def _run_checks(
    client: JolokiaClient,
    broker: str,
    values: Attributes,
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
            views = client.read_all(pattern(brokerName=broker, service="Health"), "CurrentStatus")
            states = [str(each.get("CurrentStatus")) for each in views.values()]
            ok, text = all(each == "Good" for each in states), " ".join(states) or "not known"
        else:
            used = number(values, f"{check.title()}PercentUsage")
            ok, text = used < limit, f"{used} % of its limit is used"
        if as_json:
            json_line({"check": check, "ok": ok, "text": text})
        else:
            typer.echo(f"{'ok    ' if ok else 'FAILED'} {check}: {safe_text(text)}")
        if not ok:
            failed.append(check)
    return failed
