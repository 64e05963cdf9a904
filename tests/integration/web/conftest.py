"""Fixtures of this folder's tests."""

import pytest

from tests.kit.java import maven_program
from tests.kit.web import install_part


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other
