"""Fixtures of this folder's tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.recording_broker import (
    client,
    connect,
    connector,
    host,
)
