"""Fixtures of this folder's tests."""

from tests.kit.clients.raw import connect, service, test_broker

__all__ = ["connect", "service", "test_broker"]
