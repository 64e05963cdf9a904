"""Fixtures of this folder's tests."""

from tests.kit.embedded_client import broker, client, clock
