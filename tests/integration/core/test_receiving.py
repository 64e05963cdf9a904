"""Messages that a template receives or leaves to others, over vm:// and a socket, in real time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded_urls import broker, url

__all__ = ["broker", "url"]

FACTORIES: dict[str, Callable[[ConnectionFactory], Any]] = {
    "plain": lambda factory: factory,
    "single": SingleConnectionFactory,
    "caching": CachingConnectionFactory,
    "caching consumers": lambda factory: CachingConnectionFactory(factory, cache_consumers=True),
}


@pytest.fixture
def template(broker: EmbeddedTestBroker) -> JmsTemplate:
    return JmsTemplate(ConnectionFactory(broker.url), receive_timeout=0.2)


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("timeout", [None, 1.0, 0])
async def test_a_receive_fetches_one_message_and_leaves_the_others(
    broker: EmbeddedTestBroker, url: str, template: JmsTemplate, kind: str, timeout: float | None
) -> None:
    for number in range(4):
        await template.convert_and_send("q", str(number))
    factory = FACTORIES[kind](ConnectionFactory(url))
    first = JmsTemplate(factory, receive_timeout=timeout)
    assert await first.receive_and_convert("q") == "0"
    assert broker.queue_statistics("q").dispatched == 1
    assert await template.receive_and_convert("q") == "1"
    assert await first.receive_and_convert("q") == "2"
    assert await first.receive_selected_and_convert("q", "JMSPriority = 4") == "3"
    await broker.drained("q")
    statistics = broker.queue_statistics("q")
    assert (statistics.dispatched, statistics.messages) == (4, 0)
    first.receive_timeout = 0
    assert await first.receive("q") is None
    if hasattr(factory, "destroy"):
        await factory.destroy()


@pytest.mark.parametrize("kind", FACTORIES)
async def test_receives_of_one_transaction_take_the_requested_messages(
    broker: EmbeddedTestBroker, url: str, template: JmsTemplate, kind: str
) -> None:
    for number in range(5):
        await template.convert_and_send("q", str(number))
    factory = FACTORIES[kind](ConnectionFactory(url))
    within = JmsTemplate(factory, receive_timeout=1.0)
    manager = JmsTransactionManager(factory)
    for commits in (False, True):
        async with manager.transaction() as status:
            taken = [await within.receive_and_convert("q") for _ in range(3)]
            assert taken == ["0", "1", "2"]
            assert await template.receive_and_convert("q") == ("4" if commits else "3")
            if not commits:
                status.set_rollback_only()
    if hasattr(factory, "destroy"):
        await factory.destroy()
    assert await template.receive("q") is None


@pytest.mark.parametrize("wait", [None, 5.0])
async def test_a_cancelled_receive_of_a_cached_consumer_leaves_no_request_behind(
    broker: EmbeddedTestBroker, url: str, template: JmsTemplate, wait: float | None
) -> None:
    factory = CachingConnectionFactory(ConnectionFactory(url), cache_consumers=True)
    async with factory:
        cached = JmsTemplate(factory, receive_timeout=wait)
        for _ in range(2):
            with _clock.timeout(0.05):
                await cached.receive("q")
        await template.convert_and_send("q", "x")
        assert await template.receive_and_convert("q") == "x"
        await template.convert_and_send("q", "y")
        assert await cached.receive_and_convert("q") == "y"


async def test_a_prefetch_size_in_the_name_is_kept(
    broker: EmbeddedTestBroker, template: JmsTemplate
) -> None:
    for number in range(4):
        await template.convert_and_send("q", str(number))
    assert await template.receive_and_convert("q?consumer.prefetchSize=3") == "0"
    assert broker.queue_statistics("q").dispatched > 1
