"""The store of a broker without persistence."""

from broker.store.memory.stores import (
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
