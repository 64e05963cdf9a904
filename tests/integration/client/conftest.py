"""Fixtures of this folder's tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.embedded_client import broker, client, clock
