"""The table of connections: filtered, sorted, page by page, with the rates of their messages.

The rates are measured while the page is open: each is the average since the page was read before,
at least half a second ago.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms_broker.console.model.clients import connection_view
from pyjms_broker.console.model.destinations import Page, page_of
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import View
from pyjms_broker.management.views.clients import Client, clients

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
