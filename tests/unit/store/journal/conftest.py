"""Fixtures of this folder's tests."""

from tests.kit.completions import answer
from tests.kit.simulated_disk import simulated_disk
