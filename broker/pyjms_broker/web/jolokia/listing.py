"""The response to `list`: attributes and operations of all views, by domain and name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyjms_broker.management.errors import InvalidArgumentException, MalformedObjectNameException
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import Attribute, Operation, View, ViewKind
from pyjms_broker.management.names import DOMAIN
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.web.jolokia.requests import canonical
from pyjms_broker.web.jolokia.values import part_of

__all__ = ["listed"]

_MAXIMUM: Final = 2000
"""The maximum number of views in one response; each has about 15 KiB."""


def listed(management: Management, path: Sequence[str], depth: int) -> object:
    """Return the descriptions below a path: domain, keys, op or attr, name.

    Args:
        management: the views.
        path: the first parts; empty: everything.
        depth: the number of levels that are described, below which there is 1; 0: all.

    Raises:
        InvalidArgumentException: there are too many views for one response.
    """
    domain = path[0] if path else DOMAIN
    if domain != DOMAIN:
        return {}
    views = management.find(_pattern(path))
    inner = path[2:]
    levels = depth + len(path) if depth else 0
    if len(views) > _MAXIMUM and not 0 < levels <= 2:
        raise InvalidArgumentException(
            f"There are {len(views)} views, and one list describes at most {_MAXIMUM}",
            hint="give a path, or maxDepth=1 and path=org.apache.activemq, or use search",
        )
    described: dict[type[object] | int, dict[str, object]] = {}
    beans = {_keys(view): _described(view, described) for view in views}
    if len(path) > 1:
        found: object = part_of(next(iter(beans.values()), {}), inner)
        return _cut({} if found is None else found, depth)
    return _cut(beans if path else {DOMAIN: beans}, depth)


def _pattern(path: Sequence[str]) -> ObjectName:
    if len(path) < 2:
        return ObjectName(f"{DOMAIN}:*")
    try:
        return ObjectName(f"{DOMAIN}:{path[1]}")
    except MalformedObjectNameException as error:
        raise InvalidArgumentException(error.reason, hint=error.hint) from error


def _keys(view: View[Any]) -> str:
    return canonical(view.name).partition(":")[2]


def _described(
    view: View[Any], known: dict[type[object] | int, dict[str, object]]
) -> dict[str, object]:
    made = known.get(id(view.kind))
    if made is None:
        made = known[id(view.kind)] = _of_kind(view.kind)
    return made


def _of_kind(kind: ViewKind[Any]) -> dict[str, object]:
    operations: dict[str, object] = {}
    for name, overloads in kind.operations.items():
        described = [_operation(each) for each in overloads]
        operations[name] = described[0] if len(described) == 1 else described
    return {
        "attr": {name: _attribute(each[0]) for name, each in kind.attributes.items()},
        "op": operations,
        "class": kind.java_class,
        "desc": kind.description,
    }


def _attribute(attribute: Attribute[Any]) -> dict[str, object]:
    return {"rw": attribute.set is not None, "type": attribute.type, "desc": attribute.description}


def _operation(operation: Operation[Any]) -> dict[str, object]:
    return {
        "args": [
            {"name": each.name, "type": each.type, "desc": ""} for each in operation.parameters
        ],
        "ret": operation.type,
        "desc": operation.description,
    }


def _cut(value: object, depth: int) -> object:
    """Replace values below a depth greater than 0 by Jolokia's placeholder 1."""
    if not depth or not isinstance(value, dict):
        return value
    if depth == 1:
        return {key: "1" if isinstance(each, dict) else each for key, each in value.items()}
    return {key: _cut(each, depth - 1) for key, each in value.items()}
