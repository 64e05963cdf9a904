"""Fixtures of this folder's tests."""

from tests.kit.processes.children import our_broker
from tests.kit.processes.user_programs import installed, program

__all__ = ["installed", "our_broker", "program"]
