"""Fixtures of this folder's tests."""

from tests.kit.brokers.networks import network
