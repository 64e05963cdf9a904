"""Fixtures of this folder's tests."""

from tests.kit.brokers.comparison import name
