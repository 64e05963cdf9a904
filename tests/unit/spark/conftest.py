"""Fixtures of this folder's tests."""

from tests.kit.stores.segments import write_segment
