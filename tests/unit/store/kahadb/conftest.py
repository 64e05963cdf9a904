"""Fixtures of this folder's tests."""

from tests.kit.stores.kahadb_store import driver, home, simulated_disk
