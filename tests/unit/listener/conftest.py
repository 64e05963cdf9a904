"""Fixtures of this folder's tests."""

from tests.kit.blocking import no_blocking_calls
from tests.kit.containers import build, clock, jumping, recorder
from tests.kit.jms_provider import new_provider, waiting_provider
