"""Fixtures of this folder's tests."""

from tests.kit.segments import write_segment
