"""The stream source for the bundled broker: a batch is a range of a queue's sequence numbers.

Theory of operation
===================

The broker numbers the messages in each queue's store: `seq` counts within an `epoch`, which changes
when the queue is purged or created again. A batch is the range from one offset to the next, so it
can be read any number of times, by several tasks at once, and nothing has to be copied.

The driver (`stream.RangeStreamReader`, one per query) accesses the broker through a `QueueLease`:

    lease     exclusive right to the queue; no consumer gets its messages, none of them expires
    stat      state of the queue: first and next number, messages, bytes; can wait for a change
    hold      the messages before a number stay as they are, so that a range can be read again
    trim      the messages before a number are finished and are removed

Executors (`reading.read_range`) read chunks of their share with the driver's token. All requests
are messages to the queue `PyJMS.Ranges` (`requests`), over the connection of the process.

Invariants:

- A message is removed only by `trim`, and `trim` is called only with the start of the batch that
  Spark asks for next (or with a committed end): Spark asks for the next batch only after it has
  logged the previous one as finished. So a driver that is killed at any point reads its unfinished
  batch again, and nothing else.
- A range is held before its end offset is returned to Spark. So all ranges in Spark's log can be
  read again, also after a restart, which acquires the lease again and holds the range of the
  unfinished batch before its tasks read it.
- The token of a lease stays the same for the life of the driver. When the connection is lost the
  broker drops the lease; a background task acquires it again with the same token as soon as the
  broker is available, and tasks that failed in between (`unknown_token`) retry for a minute.
- An `owner` that is the same as before (a pipeline's checkpoint id) takes the lease over at once;
  another one waits up to 30 s for it, since a driver that was just killed may still have it.
- Numbers are compared only within one epoch. Another epoch, a first number beyond the checkpoint's
  offset or a last number before it mean lost data: an error, or with `failOnDataLoss=false` a
  warning, after which reading continues at the next existing number.

AvailableNow notes the next number when it starts and ends there. The drain flag and the end of
AvailableNow work the same way: `latestOffset` returns the start offset, which is "no new data".

Why not consume and acknowledge, as a JMS client would? Messages would have to be copied before they
are acknowledged (that is what the spool does, for other brokers), and only one process could read
them. (spark-pipeline 3.2, 3.6, 5 A)
"""
