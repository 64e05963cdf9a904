"""Fixtures of this folder's tests."""

from tests.kit.brokers.scheduled import broker, make_broker, timeless
