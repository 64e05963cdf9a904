"""Convert `<networkConnectors>`."""

from __future__ import annotations

from functools import partial

from pyjms.errors import JMSException
from pyjms_broker.conversion.draft import Draft, Handler, Path, destination_of
from pyjms_broker.conversion.sections import Lost
from pyjms_broker.conversion.tables.networks import (
    DESTINATION_LISTS,
    NETWORK_CONNECTOR,
    NETWORK_LOST,
)
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.network import read_remotes

__all__ = ["convert_networks"]


def convert_networks(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<networkConnectors>`; omit and report those that cannot be converted."""
    for each in element.read_children():
        if each.name not in ("networkConnector", "multicastNetworkConnector"):
            draft.findings.unsupported(each, "only <networkConnector> is allowed here")
            continue
        text = each.attributes.get("uri", "")
        each.read_attributes.add("uri")
        try:
            read_remotes(text)
        except JMSException as error:
            draft.findings.unsupported(each, error.reason, error.hint, attribute="uri")
            each.is_named = True  # its attributes and children need no findings
            continue
        here = draft.append((*path, "network_connectors"), {"uri": text}, each)
        draft.convert_attributes(each, NETWORK_CONNECTOR, here)
        handlers: dict[str, Handler | Lost] = {
            **NETWORK_LOST,
            **{name: partial(_destinations, key) for name, key in DESTINATION_LISTS.items()},
        }
        draft.convert_children(each, handlers, here)


def _destinations(key: str, draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name not in ("queue", "topic") or name is None:
            draft.findings.unsupported(each, "it names no queue or topic")
        else:
            draft.append((*path, key), name, each)
