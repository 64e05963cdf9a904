"""Which store a broker has, and where it lies.

Stores are imported when one is made: a broker in memory needs none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from broker.store.api import PersistenceAdapter

__all__ = [
    "DEFAULT_DATA_DIRECTORY",
    "KahaDBPersistenceFactory",
    "PersistenceFactory",
]

DEFAULT_DATA_DIRECTORY = Path("activemq-data")


class PersistenceFactory(Protocol):
    """Makes a broker's store, a new one at each start."""

    @property
    def directory_name(self) -> str | None:
        """What its directory is called in the broker's; None where nothing lies on a disk."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Make the store that lies in `directory`, closed; the name tells brokers apart.

        Raises:
            ConfigurationException: what was set makes no sense, or an extra is not installed.
        """


class KahaDBPersistenceFactory:
    """Makes a KahaDB store with its defaults."""

    directory_name: str | None = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        from broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - see above
        from broker.store.kahadb.settings import KahaDBSettings  # noqa: PLC0415

        return KahaDBPersistenceAdapter(directory, KahaDBSettings())
