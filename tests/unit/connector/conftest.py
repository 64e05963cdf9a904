"""Fixtures of this folder's tests."""

from tests.kit.clients.recording_broker import client, connect, connector, host
from tests.kit.runs.blocking import no_blocking_calls
