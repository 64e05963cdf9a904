"""The index that can be rebuilt from the journal. It reads no journal and has no tasks."""

from broker.store.kahadb.index.database import IndexCorrupt
from broker.store.kahadb.index.destination import DestinationIndex
from broker.store.kahadb.index.duplicates import DuplicateIds
from broker.store.kahadb.index.entry import IndexEntry
from broker.store.kahadb.index.frozen import Frozen
from broker.store.kahadb.index.index import StoreIndex
from broker.store.kahadb.index.segments import LastSequences, SegmentUse
from broker.store.kahadb.index.sequence_set import SequenceSet
from broker.store.kahadb.index.topic import SubscriptionIndex, TopicIndex

__all__ = [
    "DestinationIndex",
    "DuplicateIds",
    "Frozen",
    "IndexCorrupt",
    "IndexEntry",
    "LastSequences",
    "SegmentUse",
    "SequenceSet",
    "StoreIndex",
    "SubscriptionIndex",
    "TopicIndex",
]
