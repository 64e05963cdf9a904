"""Fixtures of this folder's tests."""

from tests.kit.raw_client import connect, service, test_broker

__all__ = ["connect", "service", "test_broker"]
