"""Fixtures of this folder's tests."""

from tests.kit.stores.ranges import make_broker, prioritized
