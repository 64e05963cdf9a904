"""Journaled JDBC: a journal in front of the database. (activemq-persistence J9)

Theory of operation
===================

A unit is durable as soon as the journal has it, which is one append and a share of one sync; a
checkpoint brings it to the database later. Senders therefore do not wait for the database, and a
message that is consumed before the next checkpoint never reaches it:

    submit      -> journal.append; the completion is done when the journal is synced
    checkpoint  -> the longest durable prefix of the backlog is compacted and handed to the writer
                   of the database, in order; then journal segments that hold nothing else are
                   deleted
    replay      -> at start, the records after the mark in the state table are done again

Invariants:

- Each unit carries its location in the journal into the database's transaction, as the mark in the
  state table. So the tables and the mark change together, and a record is replayed exactly once.
- Only what the journal has durably counts as consumed in a compaction: a crash may take the rest,
  and then a removal must not have made its message disappear.
- A unit whose append failed was reported as failed; it never reaches the database.
- Operations that only tidy up (`PASSING`) are not journaled; others like them follow.
- Readers that need the tables (`settle`) force everything into the database, uncompacted.

A checkpoint is due when the backlog exceeds half of the journal's size, at every
`checkpoint_interval`, and when the journal's disk has room again. The store is CONGESTED when the
backlog and what is being written exceed the journal's size; it is SUSPENDED when the journal's disk
is full. A database that is down does no harm as long as the journal has room.

`codec` is the format of the records, which must stay readable; `compaction` drops what was added
and removed within one hand-over.
"""

from pyjms_broker.store.jdbc.journaled.adapter import JournaledJDBCPersistenceAdapter
from pyjms_broker.store.jdbc.journaled.writer import JournaledWriter

__all__ = ["JournaledJDBCPersistenceAdapter", "JournaledWriter"]
