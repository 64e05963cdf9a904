"""Pages of subscribers, connections, one connection, networks, and scheduled messages."""

from __future__ import annotations

from itertools import groupby

from starlette.requests import Request
from starlette.responses import Response

from pyjms_broker.console.console import Console, page_of
from pyjms_broker.console.model.clients import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    connection_view,
    connectors,
    listed,
    names_of,
    subscribers,
    values_of,
)
from pyjms_broker.console.model.jobs import job_page
from pyjms_broker.console.model.networks import bridges, network_connectors
from pyjms_broker.console.pages.query import flag, number, required

__all__ = ["connection", "connections", "network", "scheduled", "subscribers_page"]

_JOBS = 50


async def subscribers_page(console: Console, request: Request) -> Response:
    """Show durable subscriptions, active and offline, and the other consumers of topics."""
    everything = flag(request, "everything")
    found = subscribers(console.management, everything=everything)
    return console.page(
        request, "subscribers.html", title="Subscribers", found=found, everything=everything
    )


connections = page_of(
    "connections.html",
    "Connections",
    connectors=lambda console: connectors(console.management),
    network_connectors=lambda console: network_connectors(console.management),
)
"""The connectors with their connections, and the network connectors."""
network = page_of(
    "network.html",
    "Network",
    bridges=lambda console: bridges(console.management),
    has_connectors=lambda console: bool(console.tree.host.networks.connectors),
)
"""The bridges to other brokers."""


async def connection(console: Console, request: Request) -> Response:
    """Show a connection with its sessions, and their consumers and producers."""
    view = connection_view(console.management, required(request, "view"))
    consumers = listed(console.management, names_of(view, "Consumers"), CONSUMER)
    producers = listed(console.management, names_of(view, "Producers"), PRODUCER)
    everything = sorted((*consumers, *producers), key=lambda values: int(values["SessionId"]))
    sessions = [
        (
            number,
            [each for each in members if "SubscriptionId" in each],
            [each for each in members if "ProducerId" in each],
        )
        for number, found in groupby(everything, key=lambda values: int(values["SessionId"]))
        for members in [list(found)]
    ]
    return console.page(
        request,
        "connection.html",
        title=f"Connection {view.get('ClientId') or view.get('RemoteAddress')}",
        values=values_of(
            view,
            (*CONNECTION, "NetworkConnection", "FaultTolerantConnection", "ActiveTransactionCount"),
        ),
        sessions=sessions,
    )


async def scheduled(console: Console, request: Request) -> Response:
    """Show the scheduled messages."""
    return console.page(
        request,
        "scheduled.html",
        title="Scheduled",
        page=job_page(console.tree, number(request, "page"), _JOBS),
    )
