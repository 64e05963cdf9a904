"""Fixtures of this folder's tests."""

from tests.kit.clients.raw import broker_with, connect, raw_client, service, test_broker
