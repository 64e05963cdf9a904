"""Fixtures of this folder's tests."""

from tests.kit.clients.scripted_broker import clock, open_peer
from tests.kit.runs.blocking import no_blocking_calls
