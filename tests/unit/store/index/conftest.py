"""Fixtures of this folder's tests."""

from tests.kit.kahadb_index import kit
