"""Listener containers at a broker of another process, in real time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from tests.kit.clients.remote import RemoteClient
from tests.kit.failures.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.listeners.embedded import KINDS, Diary
from tests.kit.waiting import until as until_turning


def short(delay: float = 0.01, **options: Any) -> RedeliveryPolicy:
    return RedeliveryPolicy(initial_redelivery_delay=delay, redelivery_delay=delay, **options)


@pytest.fixture
def factory(client: RemoteClient) -> ConnectionFactory:
    return client.factory()


@pytest.fixture
def template(client: RemoteClient) -> JmsTemplate:
    return JmsTemplate(client.factory(), receive_timeout=10.0)


@pytest.fixture
async def diary() -> Diary:
    return Diary(_clock)


@pytest.fixture
async def build(
    client: RemoteClient, factory: ConnectionFactory
) -> AsyncIterator[Callable[..., Any]]:
    built: list[Any] = []

    def make(
        listener: Any, kind: str = "DefaultMessageListenerContainer", **properties: Any
    ) -> Any:
        properties.setdefault("destination", client.destination("q"))
        if kind.startswith("Default"):
            properties.setdefault("receive_timeout", 0.2)
        connection_factory = properties.pop("connection_factory", factory)
        built.append(KINDS[kind](connection_factory, message_listener=listener, **properties))
        return built[-1]

    yield make
    for container in built:
        await container.shutdown(5)


@pytest.fixture
async def proxy(client: RemoteClient) -> AsyncIterator[CuttingProxy]:
    """Between client and broker: what it refuses is as if the broker were away."""
    async with cutting_proxy(int(client.url.rpartition(":")[2])) as proxy:
        yield proxy


async def until(condition: Callable[[], object]) -> None:
    await until_turning(condition, turn=lambda: anyio.sleep(0.005))


async def heard(diary: Diary, condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        await diary.until(condition)
