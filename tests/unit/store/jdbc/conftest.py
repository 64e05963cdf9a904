"""Fixtures of this folder's tests."""

from tests.kit.jdbc_stores import open_store, sql, watch
from tests.kit.simulated_disk import simulated_disk
