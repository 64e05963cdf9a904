"""Fixtures of this folder's tests."""

import pytest

from tests.kit.servers.java_programs import maven_program
from tests.kit.web.sites import install_part


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other
