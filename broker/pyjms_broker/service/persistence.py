"""Factories for a broker's store.

The store's module is imported when it is created: a broker in memory needs none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["KahaDBPersistenceFactory", "PersistenceFactory"]


class PersistenceFactory(Protocol):
    """Creates a new store each time the broker starts."""

    @property
    def directory_name(self) -> str | None:
        """The name of the store's directory in the broker's; None for a store without files."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the closed store in `directory`; the name distinguishes brokers that share it.

        Raises:
            ConfigurationException: the settings contradict each other, or an extra is missing.
        """


class KahaDBPersistenceFactory:
    """Creates a KahaDB store with default settings."""

    directory_name: str | None = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the closed store in `directory`."""
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - see above
        from pyjms_broker.store.kahadb.settings import KahaDBSettings  # noqa: PLC0415

        return KahaDBPersistenceAdapter(directory, KahaDBSettings())
