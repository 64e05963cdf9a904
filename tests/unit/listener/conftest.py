"""Fixtures of this folder's tests."""

from tests.kit.clients.jms_provider import new_provider, waiting_provider
from tests.kit.listeners.containers import build, clock, jumping, recorder
from tests.kit.runs.blocking import no_blocking_calls
