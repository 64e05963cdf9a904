"""Fixtures of this folder's tests."""

from tests.kit.brokers.comparison import broker_url, connect, name, quick_factory
