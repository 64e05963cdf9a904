"""Fixtures of this folder's tests."""

from tests.kit.scheduled_broker import broker, make_broker, timeless
