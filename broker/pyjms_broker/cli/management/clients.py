"""`pyjms broker connections`, `consumers` and `subscriptions`: who uses a running broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from pyjms.cli.options import DryRun, Yes
from pyjms.cli.terminal import ask, has_to_tell, json_line, plural, safe_text, table
from pyjms.errors import JMSException
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.cli.management.client import (
    Attributes,
    JolokiaClient,
    Json,
    brokers,
    management_command,
    number,
    pattern,
)

connections = typer.Typer(
    name="connections", help="Clients of a running broker.", no_args_is_help=True
)
consumers = typer.Typer(
    name="consumers", help="Consumers of a running broker.", no_args_is_help=True
)
subscriptions = typer.Typer(
    name="subscriptions", help="Durable subscriptions of a running broker.", no_args_is_help=True
)


class _Listing(NamedTuple):
    """A table of views: the keys of their names, and the headings by attribute."""

    keys: Mapping[str, str]
    columns: Mapping[str, str]
    empty: str


_CONNECTIONS: Final = _Listing(
    {
        "connector": "clientConnectors",
        "connectorName": "*",
        "connectionViewType": "clientId",
        "connectionName": "*",
    },
    {
        "ClientId": "client",
        "RemoteAddress": "address",
        "UserName": "user",
        "Protocol": "protocol",
        "Consumers": "consumers",
        "Producers": "producers",
        "Slow": "slow",
        "Blocked": "blocked",
    },
    "there are no connections",
)
_AT_DESTINATION: Final = {
    "destinationType": "*",
    "destinationName": "*",
    "endpoint": "Consumer",
    "clientId": "*",
}
_FIGURES: Final = {
    "PendingQueueSize": "pending",
    "DispatchedQueueSize": "in flight",
    "DequeueCounter": "acknowledged",
}
_CONSUMER_ID: Final = "ConsumerId"
"""Not an attribute: it consists of these."""
_PARTS_OF_ID: Final = ("ConnectionId", "SessionId", "SubscriptionId")
_CONSUMERS: Final = _Listing(
    {**_AT_DESTINATION, "consumerId": "*"},
    {
        _CONSUMER_ID: "consumer",
        "DestinationName": "destination",
        "ClientId": "client",
        **_FIGURES,
        "PrefetchSize": "prefetch",
        "SlowConsumer": "slow",
        "Selector": "selector",
    },
    "there are no consumers",
)
_SUBSCRIPTIONS: Final = _Listing(
    {**_AT_DESTINATION, "consumerId": "Durable*"},
    {
        "ClientId": "client",
        "SubscriptionName": "name",
        "DestinationName": "topic",
        "Active": "active",
        **_FIGURES,
        "Selector": "selector",
    },
    "there are no durable subscriptions",
)


def _find(client: JolokiaClient, listing: _Listing) -> dict[str, Attributes]:
    brokers(client, "BrokerName")  # an error if there is none: no views would look like no clients
    return client.read_all(pattern(**listing.keys), *listing.columns)


def _show(found: Mapping[str, Attributes], listing: _Listing, *, as_json: bool) -> None:
    if as_json:
        for values in found.values():
            json_line({name: values.get(name) for name in listing.columns})
        return
    rows = sorted(
        [_cell(values.get(name)) for name in listing.columns] for values in found.values()
    )
    table([*listing.columns.values()], rows)
    if not rows:
        typer.echo(listing.empty, err=True)


def _cell(value: object) -> str:
    """Return a value as text; of a list of views only its length."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return str(len(value))
    return "-" if value in (None, "") else str(value)


@connections.command("list")
@management_command("connections list")
def list_connections(client: JolokiaClient, json: Json = False) -> None:
    """Print a table of the connections: client id, address, user, consumers, producers."""
    _show(_find(client, _CONNECTIONS), _CONNECTIONS, as_json=json)


@connections.command("close")
@management_command("connections close")
def close_connections(
    client: JolokiaClient,
    names: Annotated[
        list[str], typer.Argument(metavar="CLIENT...", help="Client ids, or addresses of clients.")
    ],
) -> None:
    """Close connections. Clients that use failover: connect again."""
    _close(client, names)


def _close(client: JolokiaClient, names: Sequence[str]) -> None:
    found = _find(client, _CONNECTIONS)
    for name in names:
        chosen = [
            view
            for view, values in found.items()
            if name in (values.get("ClientId"), values.get("RemoteAddress"))
        ]
        if not chosen:
            raise JMSException(
                f"There is no connection of {name}", hint="`pyjms broker connections list`"
            )
        for view in chosen:
            client.execute(view, "stop")
        typer.echo(f"{plural(len(chosen), 'connection')} of {safe_text(name)} closed")


def _find_consumers(client: JolokiaClient) -> dict[str, Attributes]:
    """Return the consumers, except for those of advisory topics."""
    attributes = [name for name in _CONSUMERS.columns if name != _CONSUMER_ID]
    listing = _CONSUMERS._replace(columns=dict.fromkeys((*attributes, *_PARTS_OF_ID), ""))
    return {
        view: {**values, _CONSUMER_ID: ":".join(str(values.get(part)) for part in _PARTS_OF_ID)}
        for view, values in _find(client, listing).items()
        if not str(values.get("DestinationName")).startswith(ADVISORY_PREFIX)
    }


@consumers.command("list")
@management_command("consumers list")
def list_consumers(client: JolokiaClient, json: Json = False) -> None:
    """Print a table of the consumers: id, destination, client, messages, prefetch, selector."""
    _show(_find_consumers(client), _CONSUMERS, as_json=json)


@consumers.command("close")
@management_command("consumers close")
def close_consumers(
    client: JolokiaClient,
    names: Annotated[
        list[str],
        typer.Argument(metavar="CONSUMER...", help="Ids of consumers, or ids of their clients."),
    ],
) -> None:
    """Close consumers, not their connections; what they did not acknowledge is delivered again."""
    found = _find_consumers(client)
    for name in names:
        chosen = [
            view
            for view, values in found.items()
            if name in (values[_CONSUMER_ID], values.get("ClientId"))
        ]
        if not chosen:
            raise JMSException(f"There is no consumer {name}", hint="`pyjms broker consumers list`")
        for view in chosen:
            client.execute(view, "close")
        typer.echo(f"{plural(len(chosen), 'consumer')} of {safe_text(name)} closed")


@subscriptions.command("list")
@management_command("subscriptions list")
def list_subscriptions(client: JolokiaClient, json: Json = False) -> None:
    """Print a table of the durable subscriptions, active or not, with their waiting messages."""
    _show(_find(client, _SUBSCRIPTIONS), _SUBSCRIPTIONS, as_json=json)


_Client = Annotated[str, typer.Argument(metavar="CLIENT", help="The client id.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the subscription.")]


def _subscription(client: JolokiaClient, client_id: str, name: str) -> tuple[str, Attributes]:
    for view, values in _find(client, _SUBSCRIPTIONS).items():
        if (values.get("ClientId"), values.get("SubscriptionName")) == (client_id, name):
            return view, values
    raise JMSException(
        f"Client {client_id} has no durable subscription {name}",
        hint="`pyjms broker subscriptions list`",
    )


@subscriptions.command("close")
@management_command("subscriptions close")
def close_subscription(client: JolokiaClient, client_id: _Client, name: _Name) -> None:
    """Close the connection that uses a durable subscription, which stays with its messages."""
    _, values = _subscription(client, client_id, name)
    if not values.get("Active"):
        typer.echo(f"The subscription {safe_text(name)} is not in use")
        return
    _close(client, [client_id])


@subscriptions.command("delete")
@management_command("subscriptions delete")
def delete_subscription(
    client: JolokiaClient,
    client_id: _Client,
    name: _Name,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete a durable subscription and its waiting messages, after a confirmation."""
    view, values = _subscription(client, client_id, name)
    shown = f"{safe_text(name)} of client {safe_text(client_id)}"
    if values.get("Active"):
        raise JMSException(
            f"The subscription {shown} is in use",
            hint="end its consumer, or `pyjms broker subscriptions close`",
        )
    if has_to_tell(yes=yes, dry_run=dry_run):
        waiting = plural(number(values, "PendingQueueSize"), "message")
        ask(f"Delete {shown} with {waiting}", dry_run=dry_run)
    client.execute(view, "destroy")
    typer.echo(f"{shown} deleted")
