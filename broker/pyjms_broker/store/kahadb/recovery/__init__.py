"""Recovery: the index is brought up to date with the journal when a store is opened."""

from pyjms_broker.store.kahadb.recovery.recovery import (
    Progress,
    Recovered,
    discard_index,
    recover_store,
)

__all__ = ["Progress", "Recovered", "discard_index", "recover_store"]
