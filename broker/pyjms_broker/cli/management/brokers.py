"""`pyjms broker status`, `list`, `stop` and `restart`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from pyjms.cli.options import duration_option
from pyjms.cli.terminal import json_line, plural, safe_text
from pyjms.errors import ConfigurationException, JMSException
from pyjms_broker.cli.management.client import (
    Attributes,
    JolokiaClient,
    Json,
    broker_of,
    brokers,
    management_command,
)

_POLL_INTERVAL: Final = 0.1
"""Seconds between two requests while a command waits."""

_SHOWN = (
    "BrokerName",
    "BrokerId",
    "BrokerVersion",
    "Uptime",
    "Slave",
    "CurrentConnectionsCount",
    "TotalMessageCount",
    "MemoryPercentUsage",
    "StorePercentUsage",
    "TempPercentUsage",
)


@management_command("status")
def status(client: JolokiaClient, json: Json = False) -> None:
    """Show whether a broker is running, with its version, uptime, message count and usage.

    The exit code is 0 if it is running, and 1 if not.
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
            f" {plural(_count(values, 'CurrentConnectionsCount'), 'connection')},"
            f" {plural(_count(values, 'TotalMessageCount'), 'message')};"
            f" memory {values.get('MemoryPercentUsage')} %, store {values.get('StorePercentUsage')}"
            f" %, temp {values.get('TempPercentUsage')} %"
        )


@management_command("list")
def list_(client: JolokiaClient, json: Json = False) -> None:
    """List the brokers at a URL: `brokerName = NAME`."""
    found = brokers(client, "BrokerName")
    for name in found:
        if json:
            json_line({"brokerName": broker_of(name)})
        else:
            typer.echo(f"brokerName = {broker_of(name)}")


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="BROKER...", help="Broker names. Default: the only broker at the URL."),
]
All = Annotated[bool, typer.Option("--all", help="All brokers at the URL.")]
Wait = Annotated[
    float, duration_option("--timeout", text="Maximum wait for the broker to stop; 0: do not wait.")
]


@management_command("stop")
def stop(
    client: JolokiaClient, names: Names = None, all_: All = False, timeout: Wait = 30.0
) -> None:
    """Stop a running broker, and wait until it has stopped.

    The broker closes its connectors, gives clients time to read the commands queued for them, and
    closes its store. The exit code is 1 if it does not stop within --timeout.
    """
    for name in _find_chosen(client, names, all_=all_):
        _execute(client, name, "stop", "stopped", timeout)


@management_command("restart")
def restart(
    client: JolokiaClient, names: Names = None, all_: All = False, timeout: Wait = 30.0
) -> None:
    """Restart a running broker, and wait until it is running again.

    The broker refuses if its configuration does not allow it (restart_allowed).
    """
    for name in _find_chosen(client, names, all_=all_):
        _execute(client, name, "restart", "restarted", timeout)


def _find_chosen(client: JolokiaClient, names: list[str] | None, *, all_: bool) -> list[str]:
    """Return the names of the views of the chosen brokers."""
    found = list(brokers(client, "BrokerName"))
    if all_:
        return found
    by_name = {broker_of(name): name for name in found}
    if not names and len(found) > 1:
        raise ConfigurationException(
            f"{client.url} has several brokers", hint=f"name them: {', '.join(by_name)}, or --all"
        )
    missing = [name for name in names or [] if name not in by_name]
    if missing:
        raise ConfigurationException(
            f"{client.url} has no broker {missing[0]}", hint=f"there is {', '.join(by_name)}"
        )
    return [by_name[name] for name in names or by_name]


def _execute(client: JolokiaClient, name: str, operation: str, done: str, timeout: float) -> None:
    from pyjms.runtime import clock as _clock

    since = _clock.now()
    client.execute(name, operation)
    if timeout == 0:
        typer.echo(f"Broker {broker_of(name)} was asked to be {done}")
        return
    running = done == "restarted"
    if not _wait_until_changed(client, name, since, running=running, timeout=timeout):
        raise JMSException(
            f"Broker {broker_of(name)} has not {done} within {timeout:g} s",
            hint="its log says why; use --timeout to wait longer",
        )
    typer.echo(f"Broker {broker_of(name)} has {done}")


def _count(values: Attributes, name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0


def _wait_until_changed(
    client: JolokiaClient, name: str, since: float, *, running: bool, timeout: float
) -> bool:
    """Wait until a broker has stopped or restarted; return False if the time was exceeded.

    Args:
        client: access to the broker.
        name: the name of the broker's view.
        since: the time before the request (`_clock.now`).
        running: wait until the broker has restarted, not only stopped.
        timeout: seconds.
    """
    import anyio

    return anyio.run(_wait, client, name, since, running, timeout)


async def _wait(
    client: JolokiaClient, name: str, since: float, running: bool, timeout: float
) -> bool:

    import anyio.to_thread

    from pyjms.runtime import clock as _clock

    changed = False
    with _clock.timeout(timeout):
        while not changed:
            found = await anyio.to_thread.run_sync(
                partial(_uptime, client, name), abandon_on_cancel=True
            )
            if running:  # an uptime that began before the request belongs to the previous run
                changed = found is not None and found <= _clock.now() - since
            else:
                changed = found is None
            if not changed:
                await _clock.sleep(_POLL_INTERVAL)
    return changed


def _uptime(client: JolokiaClient, name: str) -> float | None:
    """Return the broker's uptime in seconds; None if it is not running."""
    try:
        found = client.read_all(name, "UptimeMillis").get(name, {}).get("UptimeMillis")
    except JMSException:  # nothing listens, or it is starting or stopping
        return None
    return found / 1000 if isinstance(found, int) else None
