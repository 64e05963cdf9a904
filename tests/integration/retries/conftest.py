"""Fixtures of this folder's tests."""

from tests.kit.broker_comparison import name
