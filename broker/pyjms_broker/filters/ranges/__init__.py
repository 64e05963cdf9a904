"""Range reads: a client leases a queue, repeatedly reads messages by number, and trims it.

A client sends JSON requests to the queue `PyJMS.Ranges` and receives the replies at its reply
destination; any OpenWire client can do so. `protocol` defines the requests and `operations`
executes them. Range reads are for readers that store offsets themselves, such as Spark's streams.
`leases` has the theory of operation. (spark-pipeline 5 A)
"""
