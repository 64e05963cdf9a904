"""Fixtures of this folder's tests."""

from tests.kit.recording_broker import (
    client,
    connect,
    connector,
    host,
)
