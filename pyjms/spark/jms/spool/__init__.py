"""The stream source for any broker: messages are written to files before they are acknowledged.

Theory of operation
===================

A broker other than the bundled one cannot read messages again once they are acknowledged, and
cannot let several tasks read one queue in a repeatable way. So the driver is the only consumer, and
moves messages into a folder, the spool, that executors read:

    receive  ->  write a segment  ->  fsync, rename, fsync the folder  ->  commit the JMS session

A segment (`segments.Spool`) is one Arrow file of rows, named `rows-<number of the first>-<count>`.
The names tell which rows the spool contains, so recovery only has to list the folder. An offset is
the number of the next row; its epoch is the random id of the spool (`spool-id`), so that a
checkpoint with another folder is detected. A batch is a range of rows, so it reads the same rows
whenever Spark runs it again.

Invariants:

- All acknowledged messages are on the disk. Messages on the disk that were not acknowledged (the
  driver or its connection died before the commit) are delivered again; they are recognised by their
  message ids, acknowledged, and not written again.
- The last segment is *in doubt* when a spool is opened, and so is a segment whose commit failed:
  the broker may deliver its messages again. The last segment is not deleted, as it also carries the
  numbering; when another segment in doubt is deleted, its ids are first written to a file of *late
  ids* (`late_ids`), which is kept for a day.
- One process at a time uses a spool (`lock`): two would give different messages the same number.
  The operating system releases the lock when the process ends. A driver that was just stopped may
  have it for up to 30 s more.
- Segments up to the start of the batch that Spark requests next are deleted, except the last of
  them: a batch that failed after its end was committed reads its rows again.

States of a segment:

    event                              written        committed      in doubt       deleted
    append                             x
    commit succeeds                    -> committed
    commit fails, or spool is opened   -> in doubt    -> in doubt
    batch finished (delete_before)                    -> deleted     ids kept, -> deleted

A query can continue with its spool on the same broker or on another one; the spool is part of the
data, as the messages in it exist nowhere else. (spark-pipeline 3.2, 3.3, 5 B)
"""
