"""Rows to messages, and three promises (`exactlyOnce`) about how often each arrives.

`off`: at least once; a batch that comes again is sent again.
`ids`: the broker drops what it has seen. Rows are known by `idColumn`, else by query, batch,
partition and row number, which stay the same only without a shuffle. Our broker remembers the
last 20,000 ids of a queue on the disk. ActiveMQ drops a repeat while the first one is still on its
queue, over restarts too, and a consumed one as long as it runs and its audit reaches: 2048 rows of
a partition, or the last 1024 ids of an `idColumn` (a policy entry changes both). What was consumed
before a restart of ActiveMQ comes again. Artemis drops a repeat of the last 20,000 ids of an
address, consumed or not, over restarts too; not within one transaction.
`epoch`: exact with every broker, after shuffles too; one transaction publishes a batch.
"""
