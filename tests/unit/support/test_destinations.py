"""Names to destinations."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Queue, TemporaryTopic, Topic
from pyjms.support.destination import DynamicDestinationResolver, SimpleDestinationResolver
from tests.kit.clients.jms_provider import JmsProvider


async def test_dynamic_resolver_creates_a_destination_each_time(provider: JmsProvider) -> None:
    session = await (await provider.create_connection()).create_session()
    resolver = DynamicDestinationResolver()
    for _ in range(2):
        assert resolver.resolve_destination_name(session, "a", False) == Queue("a")
        assert resolver.resolve_destination_name(session, "a", True) == Topic("a")
    assert provider.counts["Session.createQueue"] == provider.counts["Session.createTopic"] == 2
    for provider_session, name in ((None, "a"), (session, ""), (session, None)):
        with pytest.raises(ValueError):
            resolver.resolve_destination_name(provider_session, name, False)  # type: ignore[arg-type]


async def test_simple_resolver_keeps_queues_and_topics_apart(provider: JmsProvider) -> None:
    session = await (await provider.create_connection()).create_session()
    resolver = SimpleDestinationResolver()
    first = resolver.resolve_destination_name(session, "a", False)
    assert resolver.resolve_destination_name(session, "a", False) is first == Queue("a")
    assert resolver.resolve_destination_name(session, "a", True) == Topic("a")
    assert provider.counts["Session.createQueue"] == provider.counts["Session.createTopic"] == 1
    for number in range(2000):
        resolver.resolve_destination_name(session, f"q{number}", False)
    assert len(resolver._cache) <= 1024
    with pytest.raises(ValueError):
        resolver.resolve_destination_name(None, "a", False)  # type: ignore[arg-type]


@pytest.mark.parametrize("domain", [False, True])
async def test_a_prefix_wins_over_the_domain(provider: JmsProvider, domain: bool) -> None:
    session = await (await provider.create_connection()).create_session()
    for resolver in (DynamicDestinationResolver(), SimpleDestinationResolver()):
        for _ in range(2):
            for name, destination in {
                "queue://a": Queue("a"),
                "topic://a": Topic("a"),
                "temp-topic://ID:1": TemporaryTopic("ID:1"),
            }.items():
                assert resolver.resolve_destination_name(session, name, domain) == destination
        with pytest.raises(InvalidDestinationException, match="topc:// is not a kind"):
            resolver.resolve_destination_name(session, "topc://a", domain)
