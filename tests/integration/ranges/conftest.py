"""Fixtures of this folder's tests."""

from tests.kit.ranges import make_broker, prioritized
