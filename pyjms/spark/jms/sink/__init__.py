"""The sinks: rows to messages, at three levels of `exactlyOnce`.

Theory of operation
===================

`off`: at least once. Each task sends its rows in one transaction; a batch that runs again is sent
again.

`ids`: the broker drops duplicates. Each message has a duplicate id: the value of `idColumn`, else
query, batch, partition and row number, which are the same in a repetition only without a shuffle.
How long a broker remembers an id:

- the bundled broker: the last 20,000 ids of a queue, on disk;
- ActiveMQ: as long as the first message is on its queue, also after a restart. The id of a consumed
  message as long as the broker runs and within the depth of its audit: 2048 rows of a partition, or
  the last 1024 ids of an `idColumn` (a policy entry changes both). A message that was consumed
  before a restart is sent again;
- Artemis: the last 20,000 ids of an address, consumed or not, also after a restart; not within one
  transaction. It rolls back a transaction that contains a known id; then the rows are sent one by
  one.

`epoch`: exactly once with every broker, also after a shuffle, with plain JMS (`epoch`):

    task      send rows to PyJMS.Stage.<query>, marked with the batch and a random stage id; commit
    driver    in one transaction: receive the marker of PyJMS.Epoch.<query> (the last batch that was
              published), move the rows of the successful stages to their destinations, send the
              marker with this batch's number; commit

    batch = last published     dropped, as the transaction that published it also set the marker
    batch > last published     published; leftovers of failed tasks and batches are dropped
    batch < last published     an error: the checkpoint is older than what was sent

Invariants: the marker changes only together with the messages of its batch. A stage counts only if
its task reported it, so rows of a task that was killed, or a second run, are never published. Spark
repeats only the last batch of a query. (spark-pipeline 5 D)
"""
