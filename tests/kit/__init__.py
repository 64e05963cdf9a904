"""Fixtures, test doubles and helper processes shared by the tests, one module per concept.

A test imports classes and functions from here by name. Fixtures come into reach of a folder's
tests through its conftest.py, which imports them from here (or the whole module by
`pytest_plugins`, in the top conftest.py).

    clients, listeners     the client's side, in memory or remote
    brokers, stores        the broker's side
    stomp, web             the other protocols
    servers                real programs of others: ActiveMQ, Java clients, PostgreSQL
    processes, failures    child processes; connections that are cut on purpose
    spark, soak            pipelines; a broker under load for an hour
    runs                   how pytest runs these tests
"""
