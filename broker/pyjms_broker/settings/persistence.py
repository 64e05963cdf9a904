"""The type of store in broker.yaml (`persistence`). (activemq-persistence E1, E2)"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field

from pyjms_broker import entry_points
from pyjms_broker.settings.jdbc import JDBCPersistenceSettings, JournaledJDBCPersistenceSettings
from pyjms_broker.settings.kahadb import KahaDBPersistenceSettings, MultiKahaDBPersistenceSettings
from pyjms_broker.settings.values import Section
from pyjms_broker.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["BUILT_IN_TYPES", "MemoryPersistenceSettings", "PersistenceSettings"]


class MemoryPersistenceSettings(Section):
    """Everything in memory."""

    type: Literal["memory"]

    @property
    def directory(self) -> None:
        """None."""

    @property
    def directory_name(self) -> None:
        """None."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store."""
        return MemoryPersistenceAdapter()


_REMOVED: Final = {"leveldb": "levelDB", "replicatedleveldb": "Replicated levelDB"}

BuiltInStore: TypeAlias = (
    KahaDBPersistenceSettings
    | MultiKahaDBPersistenceSettings
    | MemoryPersistenceSettings
    | JDBCPersistenceSettings
    | JournaledJDBCPersistenceSettings
)
BUILT_IN_TYPES: Final = tuple(
    str(get_args(store.model_fields["type"].annotation)[0]) for store in get_args(BuiltInStore)
)


def _check_type(value: object) -> object:
    kind = value.get("type") if isinstance(value, dict) else None
    name = _REMOVED.get(str(kind).lower().replace("_", ""))
    if name is not None:
        raise ValueError(
            f"{name} stores were removed from ActiveMQ in 5.17 and do not exist here; "
            "use type: kahadb"
        )
    if not isinstance(kind, str) or kind in BUILT_IN_TYPES:
        return value
    if others := entry_points.installed(entry_points.STORES):
        raise ValueError(f"there is no store {kind!r}; installed: {', '.join(_types(others))}")
    return value


def _types(others: list[str]) -> list[str]:
    return [*BUILT_IN_TYPES, *others]


PersistenceSettings: TypeAlias = Annotated[
    Annotated[BuiltInStore, Field(discriminator="type")], BeforeValidator(_check_type)
]
"""Any built-in store, selected by `type`."""
