"""The database side: units of operations, the thread that writes them, and loading at start.

Theory of operation
===================

The loop submits units (`operations.Unit`) to the `writer`, which passes them to one thread in
batches. While a batch is in the database, the next one gathers, so a busy store needs few commits:

    IDLE       nothing queued
    QUEUED     a unit was submitted; the pump runs at the end of this turn of the loop, so that
               everything submitted in the turn is one batch
    IN FLIGHT  the thread performs a batch; later units wait
    SUSPENDED  the database is unavailable; the batch is retried until it succeeds
    FAILED     everything queued fails, and so does what is submitted later

    event                         from          to
    submit                        IDLE          QUEUED
    pump                          QUEUED        IN FLIGHT
    batch committed               IN FLIGHT     QUEUED, or IDLE
    DatabaseUnavailableException  IN FLIGHT     SUSPENDED (`ignore_sql_exceptions`), else FAILED
    retry succeeds                SUSPENDED     as for a committed batch
    another broker has the tables IN FLIGHT     FAILED

Invariants:

- A unit is carried out completely or not at all, and units in the order of their submission.
- A batch is one transaction of the database. If the database refuses it (not: is unavailable), its
  units are tried one by one, so a bad unit fails alone.
- Each transaction moves a number in the state table from the value that this broker left there
  (`Database`). So a batch whose commit got no response is not done twice, and a broker that lost
  its lock cannot overwrite the work of the next one.
- Completions and `Unit.done` are called on the loop, after the commit.

Within a batch, neighbouring additions, removals and acknowledgements become a few bulk statements
(`executor`), and a message that is added and removed in one bulk never reaches its table.
(activemq-persistence J1 to J8, K24)
"""
