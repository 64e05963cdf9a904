"""Fixtures of this folder's tests."""

from tests.kit.stores.jdbc import open_store, sql, watch
from tests.kit.stores.simulated_disk import simulated_disk
