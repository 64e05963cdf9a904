"""Fixtures of this folder's tests."""

from tests.kit.broker_comparison import (
    broker_url,
    connect,
    name,
    quick_factory,
)
