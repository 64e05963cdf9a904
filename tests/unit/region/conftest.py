"""Fixtures of the region tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.region import (
    broker,
    client,
    clock,
    make_broker,
    paged,
    temp_store,
)
