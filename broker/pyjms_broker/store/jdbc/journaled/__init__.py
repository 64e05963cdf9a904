"""Journaled JDBC: a journal in front of the database. (activemq-persistence J9)

Theory of operation
===================

A unit is durable as soon as it is in the journal, which takes one append and a share of one sync;
a checkpoint writes it to the database later. Senders therefore do not wait for the database, and a
message that is consumed before the next checkpoint never reaches it:

    submit      -> journal.append; the completion is done when the journal is synced
    checkpoint  -> the longest durable prefix of the backlog is compacted and handed to the writer
                   of the database, in order; then journal segments that hold nothing else are
                   deleted
    replay      -> at start, the records after the mark in the state table are executed again

Invariants:

- The database transaction of a unit also writes the unit's journal location, as the mark in the
  state table. The tables and the mark change together, so a record is replayed exactly once.
- Compaction considers only records that are durable in the journal: a crash may lose later ones,
  and a removal that is lost must not have dropped its message.
- A unit whose append failed was reported as failed; it never reaches the database.
- Cleanup operations (`PASSING`) are not journaled, because they are repeated later.
- Readers that need the tables (`settle`) have everything written to the database, uncompacted.

A checkpoint is due when the backlog exceeds half of the journal's size, after each
`checkpoint_interval`, and when the journal's disk has space again. The store is CONGESTED when the
backlog and the units being written exceed the journal's size; it is SUSPENDED when the journal's
disk is full. A database outage has no effect as long as the journal has space.

`codec` is the format of the records, which must stay readable; `compaction` drops messages that
are added and removed within one hand-over.
"""

from pyjms_broker.store.jdbc.journaled.adapter import JournaledJDBCPersistenceAdapter
from pyjms_broker.store.jdbc.journaled.writer import JournaledWriter

__all__ = ["JournaledJDBCPersistenceAdapter", "JournaledWriter"]
