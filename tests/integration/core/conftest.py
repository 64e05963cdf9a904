"""A broker in memory over vm://, in virtual time, and the recorded behaviour of Spring."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.testing import EmbeddedTestBroker
from pyjms.client.factory import ConnectionFactory
from pyjms.core.template import JmsTemplate
from pyjms.testing.clock import VirtualClock

BESIDE = Path(__file__).resolve().parents[4] / "shared"


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with VirtualClock(autojump=True), EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
def factory(broker: EmbeddedTestBroker) -> ConnectionFactory:
    return ConnectionFactory(broker.url)


@pytest.fixture
def template(factory: ConnectionFactory) -> JmsTemplate:
    return JmsTemplate(factory, receive_timeout=1.0)


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    directory = Path(os.environ.get("PYJMS_SHARED", BESIDE))
    path = directory / "behaviour" / "spring-oracle.jsonl"
    if not path.is_file():
        pytest.skip(f"no recorded behaviour in {directory}")
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return {line["scenario"]: line["result"] for line in lines}
