"""Fixtures of this folder's tests."""

from tests.kit.raw_client import (
    broker_with,
    connect,
    raw_client,
    service,
    test_broker,
)
