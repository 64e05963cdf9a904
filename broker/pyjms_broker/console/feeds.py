"""The XML pages of ActiveMQ's console, which Telegraf, Datadog and others read.

They are `/admin/xml/queues.jsp`, `topics.jsp` and `subscribers.jsp`. All texts are ASCII with
character references, so that they are read alike in ActiveMQ's encoding and in UTF-8, which
readers assume of XML that names none. (activemq-edges W21)
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyjms.runtime.slices import Slices
from pyjms_broker.console.console import Console
from pyjms_broker.management.host import DOMAIN
from pyjms_broker.management.model import View

_CONTENT_TYPE: Final = "text/xml;charset=ISO-8859-1"
_DESTINATIONS: Final = {
    "size": "QueueSize",
    "consumerCount": "ConsumerCount",
    "enqueueCount": "EnqueueCount",
    "dequeueCount": "DequeueCount",
}
_SUBSCRIBER: Final = {
    "clientId": "ClientId",
    "subscriptionName": "SubscriptionName",
    "connectionId": "ConnectionId",
    "destinationName": "DestinationName",
    "selector": "Selector",
}
_BACKLOG: Final = {
    "pendingQueueSize": "PendingQueueSize",
    "dispatchedQueueSize": "DispatchedQueueSize",
    "dispatchedCounter": "DispatchedCounter",
    "enqueueCounter": "EnqueueCounter",
    "dequeueCounter": "DequeueCounter",
}


_NOT_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(value: object) -> str:
    """Return a value without the characters that XML cannot have."""
    return "" if value is None else _NOT_XML.sub("?", str(value))


def _attributes(view: View[Any], names: dict[str, str]) -> str:
    return "".join(f" {key}={quoteattr(_text(view[name]))}" for key, name in names.items())


def _queue(view: View[Any]) -> str:
    name = _text(view["Name"])
    feed = escape(f"queueBrowse/{quote(name)}?view=rss&feedType=")
    return (
        f"<queue name={quoteattr(name)}>\n<stats{_attributes(view, _DESTINATIONS)}/>\n"
        f"<feed>\n<atom>{feed}atom_1.0</atom>\n<rss>{feed}rss_2.0</rss>\n</feed>\n</queue>\n"
    )


def _topic(view: View[Any]) -> str:
    # ActiveMQ has a space behind the name, and so have the tags in users' dashboards
    name = quoteattr(f"{_text(view['Name'])} ")
    return f"<topic name={name}>\n<stats{_attributes(view, _DESTINATIONS)}/>\n</topic>\n"


def _subscriber(view: View[Any]) -> str:
    active = "yes" if view["Active"] else "no"
    return (
        f'<subscriber{_attributes(view, _SUBSCRIBER)} active="{active}">\n'
        f"<stats{_attributes(view, _BACKLOG)}/>\n</subscriber>\n"
    )


_ROOT: Final = f"{DOMAIN}:type=Broker,brokerName=*"
_TOPIC: Final = f"{_ROOT},destinationType=Topic,destinationName=*"
_DURABLE: Final = f"{_TOPIC},endpoint=Consumer,clientId=*,consumerId=Durable(*)"
_FEEDS: Final[dict[str, tuple[str, Callable[[View[Any]], str]]]] = {
    "queues": (f"{_ROOT},destinationType=Queue,destinationName=*", _queue),
    "topics": (_TOPIC, _topic),
    "subscribers": (_DURABLE, _subscriber),
}
"""By page: the pattern of its views, and how one of them is written."""


def feed_routes(console: Console) -> list[BaseRoute]:
    """Return the routes of the pages, below the console's."""
    return [Route(f"/xml/{name}.jsp", _feed(console, name), methods=["GET"]) for name in _FEEDS]


def _feed(console: Console, name: str) -> Callable[[Request], Awaitable[Response]]:
    pattern, write = _FEEDS[name]

    async def serve(_: Request) -> Response:
        slices = Slices()
        parts = [f"<{name}>\n"]
        for view in await console.management.find_in_slices(pattern):
            parts.append(write(view))
            await slices.after_item()
        content = "".join([*parts, f"</{name}>\n"]).encode("ascii", "xmlcharrefreplace")
        return Response(content, headers={"content-type": _CONTENT_TYPE})

    return serve
