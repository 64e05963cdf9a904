"""Each option in a destination's name reaches the broker, or the log says why it has no effect."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest

from pyjms.client.destination_options import CONSUMER_OPTIONS, PRODUCER_OPTIONS, WITHOUT_EFFECT
from pyjms.client.factory import ConnectionFactory
from pyjms.jms.destination import Topic
from pyjms.wire.openwire.commands import ConsumerInfo, ProducerInfo
from tests.kit.clients.scripted_broker import OpenPeer, Peer

SENT = {
    "consumer.prefetchSize": ("7", "prefetch_size", 7),
    "consumer.maximumPendingMessageLimit": ("7", "maximum_pending_message_limit", 7),
    "consumer.noLocal": ("true", "no_local", True),
    "consumer.dispatchAsync": ("false", "dispatch_async", False),
    "consumer.retroactive": ("true", "retroactive", True),
    "consumer.selector": ("a=1", "selector", "a=1"),
    "consumer.exclusive": ("true", "exclusive", True),
    "consumer.priority": ("7", "priority", 7),
    "consumer.clientId": ("me", "client_id", "me"),
    "consumer.subscriptionName": ("mine", "subscription_name", "mine"),
    "consumer.networkSubscription": ("true", "network_subscription", True),
    "consumer.optimizedAcknowledge": ("true", "optimized_acknowledge", True),
    "consumer.noRangeAcks": ("true", "no_range_acks", True),
    "producer.windowSize": ("7", "window_size", 7),
    "producer.dispatchAsync": ("true", "dispatch_async", True),
}
"""By option: a value, and the attribute of ConsumerInfo or ProducerInfo that it changes."""

_numbers = itertools.count(1)
UNPREFIXED = "options begin with consumer. or producer."
LOGGER = "pyjms.client.destination_options"


async def sent(peer: Peer, query: str, name: str = "t") -> dict[str, Any]:
    """Return what consumers and producers of a topic with these options send when they open."""
    peer.clear()
    session = await peer.connection.create_session()
    topic = Topic(f"{name}?{query}" if query else name)
    await (await session.create_consumer(topic)).close()
    await (await session.create_producer(topic)).close()
    await session.close()
    (consumer,), (producer,) = peer.sent(ConsumerInfo), peer.sent(ProducerInfo)
    own = {"consumer_id", "producer_id", "command_id"}
    return {
        f"{kind}.{name}": getattr(info, name)
        for kind, info in (("consumer", consumer), ("producer", producer))
        for name in sorted({field.name for field in type(info).LAYOUT} - own)
    }


def test_every_option_is_tested() -> None:
    known = {f"consumer.{n}" for n in CONSUMER_OPTIONS} | {
        f"producer.{n}" for n in PRODUCER_OPTIONS
    }
    assert SENT.keys() | {"consumer.browser"} == known
    assert WITHOUT_EFFECT.keys() <= known


@pytest.mark.fact("activemq-broker D8")
@pytest.mark.parametrize("name", sorted(SENT))
async def test_an_option_is_sent_to_the_broker(name: str, open_peer: OpenPeer) -> None:
    peer = await open_peer()
    value, attribute, expected = SENT[name]
    before = await sent(peer, "")
    after = await sent(peer, f"{name}={value}")
    changed = {key: after[key] for key in after if after[key] != before[key]}
    assert changed == {f"{name.partition('.')[0]}.{attribute}": expected}


@pytest.mark.fact("activemq-broker D8")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *WITHOUT_EFFECT.items(),
        ("prefetchSize", f"{UNPREFIXED}; did you mean 'consumer.prefetchSize'?"),
        ("consumr.prefetchSize", f"{UNPREFIXED}; did you mean 'consumer.prefetchSize'?"),
        ("windwSize", f"{UNPREFIXED}; did you mean 'producer.windowSize'?"),
        ("colour", UNPREFIXED),
    ],
)
async def test_an_option_without_effect_is_logged_once_with_the_reason(
    name: str, reason: str, open_peer: OpenPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await open_peer()
    topic = f"logged-{next(_numbers)}"
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(2):
            await sent(peer, f"{name}=true&consumer.priority=1", topic)
    lines = [r.getMessage() for r in caplog.records if r.name == LOGGER]
    assert lines == [f"topic://{topic}: option {name} has no effect: {reason}"]


async def test_the_browser_option_makes_no_browser(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    assert await sent(peer, "consumer.browser=true") == await sent(peer, "")


def test_dispatch_async_of_a_url_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyjms.client.options"):
        ConnectionFactory("mock://x?jms.dispatchAsync=false")
    (record,) = caplog.records
    assert f"dispatchAsync ({WITHOUT_EFFECT['consumer.dispatchAsync']})" in record.getMessage()
