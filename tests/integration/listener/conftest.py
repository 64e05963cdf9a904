"""Fixtures of this folder's tests."""

from tests.kit.data import oracle
from tests.kit.listeners.embedded import broker, build, clock, diary, factory, left, template
from tests.kit.runs.blocking import no_blocking_calls
