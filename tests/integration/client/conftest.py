"""Fixtures of this folder's tests."""

from tests.kit.clients.embedded import broker, client, clock
from tests.kit.runs.blocking import no_blocking_calls
