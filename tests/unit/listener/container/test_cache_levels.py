"""What a receive attempt creates and closes at each cache level. (spring-jms 1.2)"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.support.destination import DynamicDestinationResolver
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider

COUNTED = (
    "ConnectionFactory.createConnection", "Connection.start", "Connection.close",
    "Connection.createSession", "Session.close", "Session.createConsumer", "Consumer.close",
    "Consumer.receive", "Session.commit", "Session.createQueue",
)  # fmt: skip
LEVELS = ("CACHE_NONE", "CACHE_CONNECTION", "CACHE_SESSION", "CACHE_CONSUMER", "CACHE_AUTO")


def of_level(lines: Iterable[dict[str, Any]], level: str) -> dict[str, Any]:
    return next(line for line in lines if line["cacheLevel"] == level)


@pytest.mark.fact(
    "spring-jms 1.2.2", "spring-jms 1.2.3", "spring-jms 1.2/NONE", "spring-jms 1.2/CONNECTION",
    "spring-jms 1.2/SESSION", "spring-jms 1.2/CONSUMER",
)  # fmt: skip
@pytest.mark.parametrize("level", LEVELS)
async def test_ten_messages_make_and_close_what_spring_does(
    level: str, provider: JmsProvider, oracle: dict[str, Any], clock: VirtualClock
) -> None:
    expected = of_level(oracle["cache-levels"], level)
    seen = {}
    tenth = anyio.Event()

    async def listener(message: Message) -> None:
        assert isinstance(message, TextMessage)
        if message.text == "m10":
            seen.update(provider.count(*COUNTED))
            tenth.set()

    provider.send("q", *(f"m{i}" for i in range(1, 11)))
    container = DefaultMessageListenerContainer(
        provider, destination_name="q", message_listener=listener, session_transacted=True,
        cache_level=level, receive_timeout=60, destination_resolver=DynamicDestinationResolver(),
    )  # fmt: skip
    await container.initialize()
    assert container.cache_level == expected["effectiveLevel"]
    await container.start()
    await tenth.wait()
    await container.shutdown()

    wanted = {name: expected["callsWhenListenerSeesMessage10"][name] for name in COUNTED}
    assert seen == wanted
    after = provider.count(*COUNTED)
    assert after["Connection.close"] == after["ConnectionFactory.createConnection"]
    assert after["Session.close"] == after["Connection.createSession"]
    assert after["Consumer.close"] == after["Session.createConsumer"]
    assert provider.texts("q") == []


@pytest.mark.fact("spring-jms 1.2.3")
@pytest.mark.parametrize("level", LEVELS[:4])
async def test_idle_receives_call_what_spring_calls(
    level: Any,
    provider: JmsProvider,
    oracle: dict[str, Any],
    clock: VirtualClock,
    build: Callable[..., Any],
) -> None:
    expected = [
        call
        for call in of_level(oracle["idle-receives"], level)["callsUpToThirdEmptyReceive"]
        if call != "Session.getTransacted"
    ]
    container = build(
        lambda _message: None, session_transacted=True, cache_level=level, receive_timeout=0.2,
        destination_resolver=DynamicDestinationResolver(),
    )  # fmt: skip
    await container.start()
    await clock.advance(0.65)
    assert provider.calls[: len(expected)] == expected


@pytest.mark.fact("spring-jms 1.2.4")
async def test_all_consumers_of_a_container_share_one_connection(
    provider: JmsProvider, clock: VirtualClock, build: Callable[..., Any]
) -> None:
    container = build(lambda _message: None, concurrent_consumers=3)
    await container.start()
    await clock.settle()
    assert provider.count("ConnectionFactory.createConnection", "Connection.createSession") == {
        "ConnectionFactory.createConnection": 1,
        "Connection.createSession": 3,
    }
    assert {session.connection for session in provider.open_sessions} == set(
        provider.open_connections
    )


@pytest.mark.fact("spring-jms 1.2.5")
@pytest.mark.parametrize("level", LEVELS[:4])
async def test_only_cached_consumers_count_as_registered(
    level: Any, provider: JmsProvider, clock: VirtualClock, build: Callable[..., Any]
) -> None:
    container = build(lambda _message: None, cache_level=level)
    assert not container.is_registered_with_destination
    await container.start()
    await clock.settle()
    assert container.is_registered_with_destination == (level == "CACHE_CONSUMER")
    await container.shutdown()
    assert not container.is_registered_with_destination


@pytest.mark.fact("spring-jms 1.2.6")
async def test_destination_selector_and_listener_may_change_at_run_time(
    provider: JmsProvider, clock: VirtualClock, build: Callable[..., Any]
) -> None:
    old, new = [], []

    async def first(message: Message) -> None:
        assert isinstance(message, TextMessage)
        old.append(message.text)

    async def second(message: Message) -> None:
        assert isinstance(message, TextMessage)
        new.append(message.text)

    for level, moved in (("CACHE_SESSION", True), ("CACHE_CONSUMER", False)):
        old.clear()
        new.clear()
        provider.calls.clear()
        container = build(first, cache_level=level)
        await container.start()
        await clock.settle()
        container.destination = Queue("other")
        container.message_selector = "a = '1'"
        container.message_listener = second
        await clock.advance(1.1)
        provider.send("q", "to q")
        provider.send("other", "to other", a="1")
        await clock.settle()
        assert old == []
        assert new == (["to other"] if moved else ["to q"])
        assert ("Session.createConsumer(a = '1',no_local=False)" in provider.calls) == moved
        await container.shutdown()
        provider.backlogs.clear()
