"""Fixtures of this folder's tests."""

from tests.kit.scripted_broker import clock, open_peer
