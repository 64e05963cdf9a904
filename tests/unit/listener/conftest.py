"""Fixtures of this folder's tests."""

from tests.kit.listener_provider import (
    build,
    clock,
    jumping,
    new_provider,
    provider,
    recorder,
)
