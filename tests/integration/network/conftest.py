"""Fixtures of this folder's tests."""

from tests.kit.networks import network
