"""Fixtures of this folder's tests."""

import gc
from collections.abc import Iterator

import pytest

from tests.kit.processes.children import our_broker, process
from tests.kit.processes.user_programs import installed
from tests.kit.servers.java_brokers import real_broker
from tests.kit.servers.java_programs import java_program


@pytest.fixture
def young_garbage() -> Iterator[None]:
    """What the test leaves stays in the youngest generation: `gc.collect(0)` finds it at once.

    A whole collection also visits what hundreds of tests before have left, which takes seconds.
    """
    gc.disable()
    yield
    gc.enable()
