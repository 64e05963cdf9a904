"""Fixtures of this folder's tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.data import oracle
from tests.kit.embedded_listener import (
    broker,
    build,
    clock,
    diary,
    factory,
    left,
    template,
)
