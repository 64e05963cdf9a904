"""Several KahaDB stores as one: each destination is in the one whose filter matches best."""

from pyjms_broker.store.multi.adapter import FilteredKahaDB, MultiKahaDBPersistenceAdapter

__all__ = ["FilteredKahaDB", "MultiKahaDBPersistenceAdapter"]
