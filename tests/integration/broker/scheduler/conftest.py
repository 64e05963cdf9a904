"""Fixtures of this folder's tests."""

from tests.kit.brokers.scheduled import broker, clock, make_broker
