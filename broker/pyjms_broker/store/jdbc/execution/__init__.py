"""Database access: units of operations, the thread that writes them, and loading at start.

Theory of operation
===================

The loop submits units (`operations.Unit`) to the `writer`, which passes them to one thread in
batches. While one batch is being written, the next one accumulates: a busy store needs few commits.

    IDLE       nothing queued
    QUEUED     a unit was submitted; the pump runs at the end of this loop turn, so that
               everything submitted in the turn is one batch
    IN FLIGHT  the thread executes a batch; later units wait
    SUSPENDED  the database is unavailable; the batch is retried until it succeeds
    FAILED     all queued units fail, and so do later ones

    event                         from          to
    submit                        IDLE          QUEUED
    pump                          QUEUED        IN FLIGHT
    batch committed               IN FLIGHT     QUEUED, or IDLE
    DatabaseUnavailableException  IN FLIGHT     SUSPENDED (`ignore_sql_exceptions`), else FAILED
    retry succeeds                SUSPENDED     as for a committed batch
    another broker took over      IN FLIGHT     FAILED

Invariants:

- A unit is executed completely or not at all; units are executed in the order of submission.
- A batch is one database transaction. If the database rejects it (as opposed to being
  unavailable), its units are tried one by one, so a bad unit fails alone.
- Each transaction advances a number in the state table from the value that this broker left there
  (`Database`). A batch whose commit got no response is therefore not executed twice, and a broker
  that lost its lock cannot overwrite its successor's work.
- Completions and `Unit.done` are called on the loop, after the commit.

Within a batch, adjacent additions, removals and acknowledgements become a few bulk statements
(`executor`), and a message that is added and removed in one bulk never reaches its table.
(activemq-persistence J1 to J8, K24)
"""
