"""Fixtures of this folder's tests."""

from tests.kit.containers import build, clock, jumping, recorder
from tests.kit.jms_provider import new_provider, waiting_provider
