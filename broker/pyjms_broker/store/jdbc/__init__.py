"""Messages in a database: ActiveMQ's tables, through SQLAlchemy.

- `adapter`: the persistence adapter, which opens the database and creates the stores; `locker`:
  the lock that admits one broker at a time; `settings`.
- `stores`: the broker's store interfaces, on the loop.
- `execution`: the database work, in a thread.
- `schema`: tables, statements and column formats.
- `journaled`: a journal in front of the database.

Modules import only from those further down the list, except that `journaled` builds on the adapter.

How a store reads changes that are not written yet: units are queued for a thread, so the tables
lag behind. Each store therefore has an overlay (`stores.overlay`) of uncommitted changes. A reader
takes the tables' rows, skips the ids that the overlay lists as removed or invisible, and adds the
messages that the overlay lists as added. If only the database can tell the effect of an operation
(`UNSETTLING`), readers of that destination first write out the queue, which blocks the loop for
that long; such operations are rare.

An ID consists of a destination's number and a serial number within it (`schema.numbering`). It is
assigned on the loop, so a message has its position before it is in the database, and the rows of
one destination are in commit order. Rows that ActiveMQ wrote are renumbered at start
(`execution.loading`).
"""
