"""The index of a KahaDB store, which can be rebuilt from the journal. It runs no tasks."""

from pyjms_broker.store.kahadb.index.checkpoint import IndexCheckpoint
from pyjms_broker.store.kahadb.index.database.connections import IndexCorrupt
from pyjms_broker.store.kahadb.index.destination import DestinationIndex
from pyjms_broker.store.kahadb.index.duplicate_ids import DuplicateIds
from pyjms_broker.store.kahadb.index.entry import IndexEntry
from pyjms_broker.store.kahadb.index.segment_references import ProducerSequences, SegmentReferences
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet
from pyjms_broker.store.kahadb.index.store_index import StoreIndex
from pyjms_broker.store.kahadb.index.topic import SubscriptionIndex, TopicIndex

__all__ = [
    "DestinationIndex",
    "DuplicateIds",
    "IndexCheckpoint",
    "IndexCorrupt",
    "IndexEntry",
    "ProducerSequences",
    "SegmentReferences",
    "SequenceSet",
    "StoreIndex",
    "SubscriptionIndex",
    "TopicIndex",
]
