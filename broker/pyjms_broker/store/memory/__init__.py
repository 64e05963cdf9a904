"""The store of a broker without persistence."""

from pyjms_broker.store.memory.stores import (
    MemoryMessageStore,
    MemoryPersistenceAdapter,
    MemoryTopicMessageStore,
    MemoryTransactionStore,
)

__all__ = [
    "MemoryMessageStore",
    "MemoryPersistenceAdapter",
    "MemoryTopicMessageStore",
    "MemoryTransactionStore",
]
