"""Which store a broker has, and where it is kept.

Stores are imported when one is created: a broker in memory needs none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["KahaDBPersistenceFactory", "PersistenceFactory"]


class PersistenceFactory(Protocol):
    """Creates a broker's store, a new one at each start."""

    @property
    def directory_name(self) -> str | None:
        """The name of its directory in the broker's; None for a store without files."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store in `directory`, closed; the name distinguishes brokers that share it.

        Raises:
            ConfigurationException: the settings contradict each other, or an extra is missing.
        """


class KahaDBPersistenceFactory:
    """Creates a KahaDB store with its defaults."""

    directory_name: str | None = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store in `directory`, closed."""
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - see above
        from pyjms_broker.store.kahadb.settings import KahaDBSettings  # noqa: PLC0415

        return KahaDBPersistenceAdapter(directory, KahaDBSettings())
