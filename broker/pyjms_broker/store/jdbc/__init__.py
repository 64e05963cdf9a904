"""Messages in a database: ActiveMQ's tables, through SQLAlchemy.

- `adapter`: the persistence adapter, which opens the database and makes the stores; `locker`: one
  broker at a time; `settings`.
- `stores`: the store interfaces of the broker, on the loop.
- `execution`: the work of the database, in a thread.
- `schema`: tables, statements and the formats of columns.
- `journaled`: a journal in front of the database.

Imports go down this list, except that `journaled` is built on the adapter.

How a store reads what is not written yet: units are queued for a thread, so the tables lag behind.
Each store therefore has an overlay (`stores.overlay`) of the changes that are not committed. A
reader takes the tables' rows, leaves out the ids that the overlay has as removed or invisible, and
adds the messages that the overlay has as added. Where the effect of an operation cannot be known
without the database (`UNSETTLING`), readers of that destination first write out the queue, which
blocks the loop for that long; such operations are rare.

An ID consists of a destination's number and a serial number within it (`schema.numbering`),
assigned on the loop: so a message has its position before the database knows it, and rows of one
destination are in the order of commits. Rows that ActiveMQ wrote are renumbered at start
(`execution.loading`).
"""
