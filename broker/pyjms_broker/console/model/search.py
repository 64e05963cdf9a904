"""Search across destinations, clients and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pyjms_broker.console.model.destinations import DestinationRow, row_of
from pyjms_broker.console.model.messages import Scan
from pyjms_broker.console.model.messages import row_of as message_row
from pyjms_broker.console.model.rows import MessageRow
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.region.queue.queue import Queue

__all__ = ["Found", "search"]

_MOST: Final = 50


@dataclass(slots=True)
class Found:
    """The results of a search, at most 50 of each kind.

    `complete` is whether all messages were examined.
    """

    destinations: list[DestinationRow] = field(default_factory=list)
    connections: list[tuple[str, str]] = field(default_factory=list)
    """Client id and view."""
    subscriptions: list[tuple[str, str, str]] = field(default_factory=list)
    """Client id, subscription name and topic."""
    messages: list[tuple[str, MessageRow]] = field(default_factory=list)
    """Queue and message."""
    complete: bool = True


async def search(context: ManagementContext, text: str, selector: str = "") -> Found:
    """Find objects by a text in their names, and messages by a selector. Cancellable.

    The text is part of a name, ignoring case, or a whole message id or correlation id. With a
    selector, which applies to messages, it is part of the queue's name.

    Raises:
        InvalidSelectorException: the selector is not valid.
    """
    found = Found()
    wanted = text.lower()
    if wanted:
        _find_names(context, wanted, found)
    if selector or text:
        await _find_messages(context, text, selector, found)
    return found


def _find_names(context: ManagementContext, wanted: str, found: Found) -> None:
    for name, entry in context.destinations().items():
        if wanted in name.physical_name.lower() and len(found.destinations) < _MOST:
            found.destinations.append(row_of(entry.base))
    found.destinations.sort(key=lambda row: row.name)
    for client in clients(context):
        known = client.state.context
        client_id = known.client_id or ""
        texts = (client_id, known.user_name or "", client.transport.remote_address)
        if any(wanted in each.lower() for each in texts) and len(found.connections) < _MOST:
            view = context.names.connector(
                known.connector_name or "NOTSET",
                connectionViewType="clientId",
                connectionName=client_id or "NOTSET",
            )
            found.connections.append((client_id, view.text))
    for each in context.region.subscriptions.all():
        key = getattr(each, "durable_key", None)
        if key is not None and len(found.subscriptions) < _MOST:
            owner, subscription = key
            if wanted in owner.lower() or wanted in subscription.lower():
                topic = each.requested.physical_name
                found.subscriptions.append((owner, subscription, topic))


async def _find_messages(
    context: ManagementContext, text: str, selector: str, found: Found
) -> None:
    scan = Scan(context, selector)
    for name, entry in list(context.destinations().items()):
        queue = entry.base
        if not isinstance(queue, Queue) or queue.disposed:
            continue
        if selector and text.lower() not in name.physical_name.lower():
            continue
        async for reference in scan.of(queue):
            ids = (str(reference.message_id), reference.message.correlation_id)
            if selector or text in ids:
                found.messages.append((name.physical_name, message_row(reference)))
            if len(found.messages) >= _MOST:
                found.complete = False
                return
        if not scan.complete:
            found.complete = False
            return
