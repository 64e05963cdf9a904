"""Fixtures of this folder's tests."""

from tests.kit.brokers.completions import answer
from tests.kit.stores.simulated_disk import simulated_disk
