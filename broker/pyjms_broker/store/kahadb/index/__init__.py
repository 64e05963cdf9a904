"""The index of a KahaDB store, which can be rebuilt from the journal. It runs no tasks."""

from pyjms_broker.store.kahadb.index.checkpoint import DuplicateIds, IndexCheckpoint
from pyjms_broker.store.kahadb.index.database import IndexCorrupt, IndexEntry, MessageMetadata
from pyjms_broker.store.kahadb.index.destination import (
    DestinationIndex,
    SubscriptionIndex,
    TopicIndex,
)
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet
from pyjms_broker.store.kahadb.index.store_index import (
    ProducerSequences,
    SegmentReferences,
    StoreIndex,
)

__all__ = [
    "DestinationIndex",
    "DuplicateIds",
    "IndexCheckpoint",
    "IndexCorrupt",
    "IndexEntry",
    "MessageMetadata",
    "ProducerSequences",
    "SegmentReferences",
    "SequenceSet",
    "StoreIndex",
    "SubscriptionIndex",
    "TopicIndex",
]
