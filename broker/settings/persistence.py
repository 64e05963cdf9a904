"""`persistence` of broker.yaml: which store. (persistence E1, E2)"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from broker.settings.jdbc import JDBCPersistenceSettings, JournaledJDBCPersistenceSettings
from broker.settings.kahadb import KahaDBPersistenceSettings, MultiKahaDBPersistenceSettings
from broker.settings.values import Section
from broker.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from broker.store.api import PersistenceAdapter

__all__ = ["MemoryPersistenceSettings", "PersistenceSettings"]


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
        """Make the store."""
        return MemoryPersistenceAdapter()


_GONE: Final = {"leveldb": "levelDB", "replicatedleveldb": "Replicated levelDB"}


def _refuse_what_is_gone(value: object) -> object:
    kind = value.get("type") if isinstance(value, dict) else None
    name = _GONE.get(str(kind).lower().replace("_", ""))
    if name is not None:
        raise ValueError(
            f"{name} stores were removed from ActiveMQ in 5.17 and do not exist here; "
            "use type: kahadb"
        )
    return value


PersistenceSettings: TypeAlias = Annotated[
    Annotated[
        KahaDBPersistenceSettings
        | MultiKahaDBPersistenceSettings
        | MemoryPersistenceSettings
        | JDBCPersistenceSettings
        | JournaledJDBCPersistenceSettings,
        Field(discriminator="type"),
    ],
    BeforeValidator(_refuse_what_is_gone),
]
"""Any of them, told apart by `type`."""
