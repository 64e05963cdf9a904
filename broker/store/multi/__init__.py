"""Several KahaDB stores as one: each destination in the one whose filter fits it best."""

from broker.store.multi.adapter import MultiKahaDBPersistenceAdapter
from broker.store.multi.filters import FilteredKahaDB

__all__ = ["FilteredKahaDB", "MultiKahaDBPersistenceAdapter"]
