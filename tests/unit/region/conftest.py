"""Fixtures of the region tests."""

from tests.kit.brokers.region import broker, client, clock, make_broker, paged, temp_store
from tests.kit.runs.blocking import no_blocking_calls
