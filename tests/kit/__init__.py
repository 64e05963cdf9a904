"""Fixtures, test doubles and helper processes shared by the tests, one module per concept.

A test imports classes and functions from here by name. Fixtures come into reach of a folder's
tests through its conftest.py, which imports them from here (or the whole module by
`pytest_plugins`, in the top conftest.py).
"""
