"""Queues read by the numbers of their messages: leased, read again and again, trimmed.

A client sends JSON to the queue `PyJMS.Ranges` and gets its answers at its reply destination;
any OpenWire client can. `protocol` has the requests, `operations` what they do. For readers that
keep a place of their own, such as Spark's streams. (spark-pipeline 5 A)
"""
