"""The view of the message store. (ActiveMQ PersistenceAdapterView; activemq-edges 7)"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeAlias

from pyjms_broker.management.conversion import LONG, STRING
from pyjms_broker.management.host import Managed
from pyjms_broker.management.model import Attribute, ViewKind, view_kind
from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["PERSISTENCE_ADAPTER", "store_name"]

_Store: TypeAlias = Managed[PersistenceAdapter]

_SEGMENT: Final = re.compile(r"db-(\d+)\.log")


def store_name(store: PersistenceAdapter) -> str:
    """Return a store's name: its kind and, in brackets, its directory."""
    directory: Path | None = getattr(store, "directory", None)
    kind = type(store).__name__
    return kind if directory is None else f"{kind}[{directory}]"


def _segments(s: _Store) -> str:
    directory: Path | None = getattr(s.it, "directory", None)
    if directory is None or not directory.is_dir():
        return "[]"
    found = (_SEGMENT.fullmatch(path.name) for path in directory.iterdir())
    return str(sorted(int(match[1]) for match in found if match))


def _transactions(s: _Store) -> str:
    broker = s.tree.host.broker
    prepared = broker.prepared_transactions(s.tree.client)
    return f"[{';'.join(str(xid) for xid in prepared)}]"


PERSISTENCE_ADAPTER: Final[ViewKind[_Store]] = view_kind(
    "PersistenceAdapterView",
    "The message store.",
    [
        Attribute(
            "Name", STRING, "The kind and directory of the store.", lambda s: store_name(s.it)
        ),
        Attribute("Size", LONG, "Size on disk, in bytes.", lambda s: s.it.size),
        Attribute("Data", STRING, "The numbers of the journal's files.", _segments),
        Attribute("Transactions", STRING, "The prepared transactions.", _transactions),
        Attribute("Statistics", STRING, "Always empty.", lambda _: "{}"),
    ],
)
