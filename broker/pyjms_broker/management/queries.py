"""Pages of destinations as JSON. (ActiveMQ DestinationsViewFilter; activemq-edges 7)"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import View, ViewKind
from pyjms_broker.management.object_name import ObjectName

__all__ = ["query_destinations"]

_FILTERS: Final[dict[str, Callable[[BrokerDestination], bool]]] = {
    "": lambda _: True,
    "empty": lambda d: d.statistics.messages == 0,
    "nonEmpty": lambda d: d.statistics.messages != 0,
    "noConsumer": lambda d: d.statistics.consumers == 0,
    "nonAdvisory": lambda d: not d.destination.physical_name.startswith(ADVISORY_PREFIX),
}
_SORT_KEYS: Final[dict[str, Callable[[BrokerDestination], Any]]] = {
    "name": lambda d: d.destination.physical_name,
    "queueSize": lambda d: d.statistics.messages,
    "consumerCount": lambda d: d.statistics.consumers,
    "enqueueCount": lambda d: d.statistics.enqueues,
    "dequeueCount": lambda d: d.statistics.dequeues,
}
_DEFAULTS: Final = {"name": "", "filter": "", "sortColumn": "name", "sortOrder": "asc"}


def query_destinations(
    tree: ManagementContext,
    kind: ViewKind[Any],
    destinations: Mapping[Destination, BrokerDestination],
    query: str,
    page: int,
    size: int,
) -> str:
    """Return a page of the destinations selected by a query, with all their attributes.

    Args:
        tree: the context of the views.
        kind: the kind of the views.
        destinations: the candidates.
        query: JSON with `name` (part of the name), `filter` (empty, nonEmpty, noConsumer or
            nonAdvisory), `sortColumn` (name, queueSize, consumerCount, enqueueCount or
            dequeueCount) and `sortOrder` (asc or desc); all are optional.
        page: the number of the page, from 1.
        size: the number of destinations per page.

    Raises:
        InvalidArgumentException: the query is invalid.
    """
    wanted = _read(query)
    is_one = _FILTERS.get(wanted["filter"], _FILTERS[""])
    found = [
        (destination, each)
        for destination, each in destinations.items()
        if wanted["name"] in destination.physical_name and is_one(each)
    ]
    key = _SORT_KEYS.get(wanted["sortColumn"], _SORT_KEYS["name"])
    found.sort(key=lambda each: key(each[1]), reverse=wanted["sortOrder"].lower() == "desc")
    first = max(0, page - 1) * max(0, size)
    data = {}
    for destination, each in found[first : first + max(0, size)]:
        name = tree.names.destination(destination)
        data[str(name)] = _values(View(name, kind, Managed(tree, each.base)))
    return json.dumps({"data": data, "count": len(found)})


def _read(query: str) -> dict[str, str]:
    try:
        values = json.loads(query) if query.strip() else {}
        if not isinstance(values, dict):
            raise TypeError
        return {name: str(values.get(name) or default) for name, default in _DEFAULTS.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentException(
            "The filter of the query cannot be read",
            hint='write JSON such as {"name": "orders", "filter": "nonEmpty"}',
        ) from error


def _values(view: View[Any]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in view.get_all().items():
        kind = view.kind.attributes[name][0].type
        values["dlq" if name == "DLQ" else name[:1].lower() + name[1:]] = _shown(kind, value)
    return values


def _shown(kind: str, value: object) -> object:
    if value is None or "javax.management.ObjectName" not in kind:
        return value
    if isinstance(value, list):
        return [_object_name(each) for each in value]
    return _object_name(str(value))


def _object_name(text: str) -> dict[str, object]:
    """Return an object name in Jackson's form."""
    name = ObjectName(text)
    pairs = sorted(name.keys.items())
    return {
        "canonicalName": f"{name.domain}:{','.join(f'{key}={value}' for key, value in pairs)}",
        "domain": name.domain,
        "keyPropertyList": dict(name.keys),
        "keyPropertyListString": text.partition(":")[2],
    }
