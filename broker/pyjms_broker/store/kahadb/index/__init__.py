"""The index of a KahaDB store, which can be rebuilt from the journal. It runs no tasks."""

from pyjms_broker.store.kahadb.index.checkpoint import DuplicateIds as DuplicateIds
from pyjms_broker.store.kahadb.index.checkpoint import IndexCheckpoint as IndexCheckpoint
from pyjms_broker.store.kahadb.index.database import IndexCorrupt as IndexCorrupt
from pyjms_broker.store.kahadb.index.database import IndexEntry as IndexEntry
from pyjms_broker.store.kahadb.index.database import MessageMetadata as MessageMetadata
from pyjms_broker.store.kahadb.index.destination import DestinationIndex as DestinationIndex
from pyjms_broker.store.kahadb.index.destination import SubscriptionIndex as SubscriptionIndex
from pyjms_broker.store.kahadb.index.destination import TopicIndex as TopicIndex
from pyjms_broker.store.kahadb.index.sequence_set import SequenceSet as SequenceSet
from pyjms_broker.store.kahadb.index.store_index import ProducerSequences as ProducerSequences
from pyjms_broker.store.kahadb.index.store_index import SegmentReferences as SegmentReferences
from pyjms_broker.store.kahadb.index.store_index import StoreIndex as StoreIndex
