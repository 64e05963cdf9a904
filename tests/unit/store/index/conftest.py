"""Fixtures of this folder's tests."""

from tests.kit.stores.kahadb_index import kit
