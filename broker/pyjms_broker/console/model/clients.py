"""Tables of connections, consumers, producers, durable subscriptions and networks.

Their rows are views, of which the pages read the attributes that they show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms.wire.openwire.commands import ConnectionId
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.console.model.destinations import Page, page_of
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.host import DOMAIN, Managed, ManagementContext
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.clients import (
    CONNECTION,
    PRODUCER,
    Client,
    client_of,
    clients,
    producer_name,
    producers,
)
from pyjms_broker.management.views.subscriptions import subscription_view
from pyjms_broker.region.durable_subscription import DurableTopicSubscription


def below(**keys: str) -> str:
    """Return the pattern of names below the broker with these keys."""
    written = "".join(f",{key}={value}" for key, value in keys.items())
    return f"{DOMAIN}:type=Broker,brokerName=*{written}"


class ConnectorRow(NamedTuple):
    """A connector, its URI, and how many clients it has."""

    name: str
    uri: str
    clients: int


def connectors(context: ManagementContext) -> list[ConnectorRow]:
    """Return the connectors, sorted by name; those of clients in this process have no URI."""
    counts = Counter(each.state.context.connector_name or "NOTSET" for each in clients(context))
    found = [
        ConnectorRow(each.name, each.connect_uri, counts.pop(each.name, 0))
        for each in context.host.connectors
    ]
    found += [ConnectorRow(name, "", count) for name, count in counts.items()]
    return sorted(found)


def connection_of(management: Management, connection_id: str) -> View[Managed[Client]]:
    """Return the view of the connection with an id, or raise InstanceNotFoundException."""
    context = management.context
    found = client_of(context, ConnectionId(connection_id))
    if found is None:
        raise InstanceNotFoundException(
            f"There is no connection {connection_id[:200]}", hint="its client has closed it"
        )
    return connection_view(context, found)


def connection_view(context: ManagementContext, client: Client) -> View[Managed[Client]]:
    """Return the view of a connection."""
    known = client.state.context
    name = context.names.connector(
        known.connector_name or "NOTSET",
        connectionViewType="clientId",
        connectionName=known.client_id or "NOTSET",
    )
    return View(name, CONNECTION, Managed(context, client))


def consumer_view(management: Management, name: str) -> View[Any]:
    """Return the view of a consumer, or raise InstanceNotFoundException."""
    if ObjectName(name).keys.get("endpoint") != "Consumer":
        raise InstanceNotFoundException(
            f"{name[:200]} is not the name of a consumer", hint="choose one on a queue's page"
        )
    try:
        return management.view(name)
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no consumer {name[:200]}", hint="its client has closed it"
        ) from error


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The three tables of the page subscribers."""

    active: list[View[Any]]
    """Durable subscriptions with a consumer."""
    offline: list[View[Any]]
    """Durable subscriptions without one."""
    plain: list[View[Any]]
    """Consumers of topics that are not durable."""


def subscribers(management: Management, *, everything: bool = False) -> Subscribers:
    """Return the subscriptions of topics; `everything` includes those of advisory topics."""
    result, context = Subscribers([], [], []), management.context
    for each in context.region.subscriptions.all():
        name = each.requested.physical_name
        if not each.requested.is_topic or (not everything and name.startswith(ADVISORY_PREFIX)):
            continue
        view = subscription_view(context, each)
        if not view["Durable"]:
            result.plain.append(view)
        elif view["Active"]:
            result.active.append(view)
        else:
            result.offline.append(view)
    for rows in (result.active, result.offline, result.plain):
        rows.sort(key=lambda view: (str(view["ClientId"]), str(view["SubscriptionName"])))
    return result


def consumers_of(context: ManagementContext, base: RegionDestination) -> list[View[Any]]:
    """Return the consumers of a destination, also those of a pattern, and offline ones."""
    attached = set(base.consumers)
    return _by_client(
        subscription_view(context, each)
        for each in context.region.subscriptions.all()
        if each in attached or each.requested == base.destination
    )


def producers_of(context: ManagementContext, base: RegionDestination) -> list[View[Any]]:
    """Return the producers of a destination."""
    return _by_client(
        View(producer_name(context, each), PRODUCER, Managed(context, each))
        for client in clients(context)
        for each in producers(client)
        if each.info is not None and each.info.destination == base.destination
    )


def _by_client(views: Iterable[View[Any]]) -> list[View[Any]]:
    return sorted(views, key=lambda view: (str(view["ClientId"]), view.name.text))


def views_named(management: Management, names: Iterable[str]) -> list[View[Any]]:
    """Return the views with these names, except for those that have ended meanwhile."""
    found: list[View[Any]] = []
    for name in names:
        with suppress(InstanceNotFoundException):
            found.append(management.view(name))
    return found


def names_of(view: View[Any], attribute: str) -> list[str]:
    """Return an attribute that is a list of names."""
    found = view[attribute]
    assert isinstance(found, list), f"{attribute} is a list of names"
    return found


def durable_subscription(management: Management, client_id: str, name: str) -> View[Any]:
    """Return the view of a durable subscription, or raise InstanceNotFoundException."""
    context = management.context
    for each in context.region.subscriptions.all():
        if isinstance(each, DurableTopicSubscription) and tuple(each.key) == (client_id, name):
            return subscription_view(context, each)
    raise InstanceNotFoundException(
        f"There is no durable subscription {name[:200]} of {client_id[:200]}",
        hint="it may have been deleted; reload the page subscribers",
    )


# Tables of network connectors and bridges. (activemq-edges W3)


def network_connectors(management: Management) -> list[View[Any]]:
    """Return the network connectors, sorted by name."""
    found = management.find(below(connector="networkConnectors", networkConnectorName="*"))
    return sorted(found, key=lambda view: str(view["Name"]))


def network_connector_view(management: Management, name: str) -> View[Any]:
    """Return the view of a network connector, or raise InstanceNotFoundException."""
    try:
        return management.view(management.context.names.network_connector(name))
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no network connector {name[:200]}",
            hint="it may have been removed; reload the page connections",
        ) from error


def bridges(management: Management) -> list[View[Any]]:
    """Return the current bridges, sorted by network connector and remote broker.

    `networkConnectorName` in the name of a bridge requested by another broker is the name assigned
    by this broker.
    """
    pattern = below(connector="*", networkConnectorName="*", networkBridge="*")
    return sorted(
        management.find(pattern),
        key=lambda view: (view.name.keys["networkConnectorName"], str(view["RemoteBrokerName"])),
    )


def bridge_view(management: Management, name: str) -> View[Any]:
    """Return the view of a bridge, or raise InstanceNotFoundException."""
    try:
        if "networkBridge" in ObjectName(name).keys:
            return management.view(name)
    except InstanceNotFoundException as error:
        raise InstanceNotFoundException(
            f"There is no bridge {name[:200]}",
            hint="it has ended; reload the page network to see whether there is a new one",
        ) from error
    raise InstanceNotFoundException(
        f"{name[:200]} is not the name of a bridge", hint="choose one on the page network"
    )


# --- The table of connections: filtered, sorted, page by page, with the rates of their messages.
#
# The rates are measured while the page is open: each is the average since the page was read before,
# at least half a second ago.

_APART: Final = 0.5
_FORGOTTEN: Final = 60.0
"""Seconds without a page that shows connections, after which their rates are forgotten."""


class Observation(NamedTuple):
    """The counters of a connection at a time, and their rates until then."""

    time: float
    sent: int
    dispatched: int
    sent_rate: float | None = None
    """Messages a second from the client; None: not measured yet."""
    dispatched_rate: float | None = None


class ConnectionRates:
    """The last observations of all connections, by connection id."""

    def __init__(self) -> None:
        self._known: dict[str, Observation] = {}
        self._time = 0.0

    async def observe(self, found: dict[str, Client]) -> dict[str, Observation]:
        """Observe the connections, and forget all others. Cancellable."""
        now = _clock.now()
        known = self._known if now - self._time < _FORGOTTEN else {}
        self._time = now
        slices = Slices()
        observed: dict[str, Observation] = {}
        for key, client in found.items():
            last = known.get(key)
            if last is not None and now - last.time < _APART:
                observed[key] = last
            else:
                observed[key] = _observation(now, client.counts, last)
            await slices.after_item()
        self._known = observed
        return observed


def _observation(now: float, counts: tuple[int, int], last: Observation | None) -> Observation:
    sent, dispatched = counts
    if last is None:
        return Observation(now, sent, dispatched)
    seconds = now - last.time
    return Observation(
        now,
        sent,
        dispatched,
        max(0, sent - last.sent) / seconds,
        max(0, dispatched - last.dispatched) / seconds,
    )


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """A connection in the table."""

    id: str
    client: Client
    rates: Observation
    view: View[Managed[Client]]


_Found = tuple[str, Client, Observation]
_KEYS: Final[dict[str, tuple[str, Callable[[_Found], Any]]]] = {
    "client": ("Client id", lambda f: f[1].state.context.client_id or ""),
    "address": ("Remote address", lambda f: f[1].transport.remote_address),
    "user": ("User", lambda f: f[1].state.context.user_name or ""),
    "protocol": ("Protocol", lambda f: f[1].transport.protocol),
    "since": ("Since (UTC)", lambda f: f[1].state.began),
    "consumers": ("#Consumers", lambda f: f[1].state.consumers[False]),
    "producers": ("#Producers", lambda f: f[1].state.producers[False]),
    "sent": ("#Sent/s", lambda f: f[2].sent_rate or 0.0),
    "dispatched": ("#Dispatched/s", lambda f: f[2].dispatched_rate or 0.0),
}
CONNECTION_COLUMNS: Final = {key: label for key, (label, _) in _KEYS.items()}
"""The columns by which the table can be sorted, with their headings."""


async def connection_page(
    context: ManagementContext,
    rates: ConnectionRates,
    *,
    text: str,
    sort: str,
    descending: bool,
    number: int,
    size: int,
) -> Page[ConnectionRow]:
    """Return a page of the connections with `text` in a name. Cancellable.

    The names are client id, address, user, protocol and connector.
    """
    wanted = text.lower()
    slices = Slices()
    every: dict[str, Client] = {}
    for client in clients(context):
        every[str(client.state.info.connection_id)] = client
        await slices.after_item()
    observed = await rates.observe(every)
    found = [
        (key, client, observed[key])
        for key, client in every.items()
        if not wanted or any(wanted in each.lower() for each in _names(client))
    ]
    found.sort(key=_KEYS.get(sort, _KEYS["client"])[1], reverse=descending)
    page = page_of(found, number, size)
    rows = [
        ConnectionRow(key, client, rate, connection_view(context, client))
        for key, client, rate in page.items
    ]
    return Page(rows, page.number, page.first, page.has_next, page.total)


def _names(client: Client) -> tuple[str, ...]:
    known, transport = client.state.context, client.transport
    return (
        known.client_id or "",
        transport.remote_address,
        known.user_name or "",
        transport.protocol,
        known.connector_name or "",
    )
