"""The recorded behaviour of Spring and ActiveMQ, beside the repository."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.data import spring_oracle


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    return spring_oracle()
