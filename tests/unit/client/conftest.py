"""Fixtures of this folder's tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.scripted_broker import clock, open_peer
