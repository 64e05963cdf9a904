"""Messages in a database: ActiveMQ's tables, through SQLAlchemy.

A message goes through three stops: its store (`stores`, on the loop) gives it a position and
submits an operation; the `writer` passes the operations of a loop's turn as one batch to a thread;
there, the `database` turns the batch into a few bulk statements of one transaction.

An ID consists of a destination's number and a serial number within it (`schema`). It is assigned on
the loop, so a message has its position before it is in the database, and the rows of one
destination are in commit order. Rows that ActiveMQ wrote are renumbered at start (`loading`).
`journaled` puts a journal in front of the writer.
"""
