"""Each client option has an effect that can be seen from outside, or the log says that it has none.

A fixed scenario is run against a scripted broker, once with the defaults and once with each option.
What the client sends, returns, logs and how long it waits is its outcome; an option without effect
would leave the outcome as it is.
"""

from __future__ import annotations

import itertools
import logging
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.client.options import IGNORED, JMS_OPTIONS
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import find
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerInfo,
    MessageAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
)
from tests.kit.clients.scripted_broker import Peer, clock

__all__ = ["clock"]

ROOT = Path(__file__).resolve().parents[3]
_names = itertools.count(1)
_SEEN = {
    ConnectionInfo: ("connection_id", "client_id", "user_name", "password"),
    ProducerInfo: ("window_size",),
    ConsumerInfo: (
        "prefetch_size", "maximum_pending_message_limit", "dispatch_async", "exclusive",
        "retroactive", "optimized_acknowledge", "subscription_name",
    ),
    MessageAck: ("ack_type", "message_count"),
}  # fmt: skip

VALUES = {
    "userName": "anna",
    "password": "secret",
    "clientID": "own",
    "clientIDPrefix": "prefix",
    "connectionIDPrefix": "prefix",
    "sendTimeout": "700",
    "closeTimeout": "900",
    "connectResponseTimeout": "800",
    "producerWindowSize": "1500",
    "auditDepth": "1",
    "auditMaximumProducerNumber": "1",
    "optimizeAcknowledgeTimeOut": "0",
    "optimizedAckScheduledAckInterval": "40",
    "warnAboutUnstartedConnectionTimeout": "0",
    "prefetchPolicy.all": "7",
    "prefetchPolicy.maximumPendingMessageLimit": "7",
    "redeliveryPolicy.backOffMultiplier": "3",
    "redeliveryPolicy.collisionAvoidancePercent": "50",
    "redeliveryPolicy.maximumRedeliveries": "1",
    "redeliveryPolicy.maximumRedeliveryDelay": "1500",
}
"""What to set; others: the contrary of the default, or 77."""

WITH = {
    "optimizeAcknowledgeTimeOut": "optimizeAcknowledge=true",
    "optimizedAckScheduledAckInterval": "optimizeAcknowledge=true",
    "prefetchPolicy.durableTopicPrefetch": "optimizedMessageDispatch=false",
    "redeliveryPolicy.backOffMultiplier": "redeliveryPolicy.useExponentialBackOff=true",
    "redeliveryPolicy.maximumRedeliveryDelay": "redeliveryPolicy.useExponentialBackOff=true",
    "redeliveryPolicy.collisionAvoidancePercent": "redeliveryPolicy.useCollisionAvoidance=true",
    "producerWindowSize": "useAsyncSend=true",
}
"""Options that only mean something together with another one."""


def value_of(name: str, factory: ConnectionFactory) -> str:
    if name in VALUES:
        return VALUES[name]
    path, _ = JMS_OPTIONS[name]
    holder: Any = factory.options
    policy, dot, attribute = path.partition(".")
    if dot:
        holder = factory.prefetch_policy if "prefetch" in policy else factory.redelivery_policy
    default = getattr(holder, attribute if dot else path)
    return str(not default).lower() if isinstance(default, bool) else "77"


class Scenario:
    """One run; `outcome` is everything that can be seen of it."""

    def __init__(self, query: str) -> None:
        self.outcome: list[object] = []
        self._query = query
        self._name = f"effects-{next(_names)}"

    async def run(self) -> list[object]:
        query = f"?{self._query}" if self._query else ""
        factory = ConnectionFactory(f"mock://{self._name}{query}")
        connection = await factory.create_connection()
        peer = self.peer = Peer(connection, find(self._name))
        # the first registration gets no response: how long does it wait?
        peer.silent = lambda command: isinstance(command, ConnectionInfo)
        await self._timed("connect", connection.create_session)
        peer.silent = lambda command: False
        for info in peer.sent(ConnectionInfo):  # it comes late
            peer.mock.deliver(Response(info.command_id))
        unstarted = await connection.create_session()
        early = await unstarted.create_consumer(Queue("early"))
        await _clock.sleep(0.6)
        await peer.dispatch(early, "early")
        await connection.start()
        await self._send(connection)
        await self._subscribe(connection)
        await self._receive(connection)
        await self._roll_back(connection)
        await self._recover_individually(connection)
        peer.silent = lambda command: isinstance(command, RemoveInfo)
        self.outcome.append(connection.stats and connection.stats.message_count.count)
        await self._timed("close", connection.close)
        self._commands()
        return self.outcome

    async def _timed(self, what: str, action: Any) -> None:
        began = _clock.now()
        try:
            with _clock.timeout(30):
                await action()
        except JMSException as error:
            self.outcome.append(type(error).__name__)
        self.outcome.append((what, round(_clock.now() - began, 2)))

    async def _send(self, connection: ActiveMQConnection) -> None:
        session = await connection.create_session()
        producer = await session.create_producer(Queue("q"))
        for mode in (DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT):
            message = session.create_text_message("text " * 500)
            await self._timed("sent", partial(producer.send, message, delivery_mode=mode))
            sent = self.peer.mock.sent[-1]
            if isinstance(sent, ActiveMQMessage):
                self.outcome += [sent.response_required, sent.timestamp > 0, sent.compressed]
            self.outcome.append(message.read_only_body)
        nested = session.create_map_message()
        nested["list"] = [1, 2]
        await self._timed("nested", partial(producer.send, nested))
        self.peer.silent = lambda command: isinstance(getattr(command, "content", None), bytes)
        await self._timed("send", lambda: producer.send(session.create_text_message("x")))
        self.peer.silent = lambda command: False

    async def _subscribe(self, connection: ActiveMQConnection) -> None:
        connection.has_own_client_id = True  # durable subscribers need one
        for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT):
            session = await connection.create_session(False, mode)
            await session.create_consumer(Topic("t"))
            await session.create_durable_subscriber(Topic("t"), f"durable-{mode}")
        browser = await session.create_browser(Queue("q"))
        with _clock.timeout(1):  # the scripted broker never ends it
            async for _ in browser:
                raise AssertionError("nothing was dispatched to it")
        await browser.close()

    async def _receive(self, connection: ActiveMQConnection) -> None:
        peer = self.peer
        session = await connection.create_session()
        consumer = await session.create_consumer(Queue("q"))
        low = peer.dispatch_of(consumer, "low", priority=1)
        high = peer.dispatch_of(consumer, "high", priority=9)
        old = peer.dispatch_of(consumer, "old", expiration=1)
        others = [peer.dispatch_of(consumer, f"other {n}") for n in range(3)]
        for number, other in enumerate(others):
            assert other.message is not None
            assert other.message.message_id is not None
            other.message.message_id.producer_id = ProducerId(f"ID:p{number}", 1, 1)
        for dispatch in (low, high, old, *others, low, others[0]):
            peer.mock.deliver(dispatch)
        await peer.settle()
        while True:
            message: Any = await consumer.receive(0.05)
            if message is None:
                break
            acks = [c for c in peer.mock.sent if isinstance(c, MessageAck)]
            self.outcome.append((message.text, len(acks), any(a.response_required for a in acks)))
        await _clock.sleep(0.4)
        await peer.dispatch(consumer, "much later")
        await consumer.receive(0.05)
        self.outcome.append(len(peer.sent(MessageAck)))

    async def _roll_back(self, connection: ActiveMQConnection) -> None:
        session = await connection.create_session(transacted=True)
        consumer = await session.create_consumer(Queue("q"))
        began = _clock.now()
        await self.peer.dispatch(consumer, "often", counter=9)
        await self.peer.dispatch(consumer, "a")
        for number in range(5):
            message: Any = await consumer.receive(20.0)
            self.outcome.append((getattr(message, "text", None), round(_clock.now() - began, 2)))
            if number == 0:
                await self.peer.dispatch(consumer, "later")
            await session.rollback()

    async def _recover_individually(self, connection: ActiveMQConnection) -> None:
        session = await connection.create_session(transacted=True)
        consumer = await session.create_consumer(Queue("q"))
        await self.peer.dispatch(consumer, "a", "b")
        for _ in range(2):
            received = await consumer.receive(1.0)
            assert isinstance(received, Message)
        await session.commit()

    def _commands(self) -> None:
        for command in self.peer.mock.sent:
            shown = {name: self._shown(getattr(command, name)) for name in _seen(command)}
            self.outcome.append((type(command).__name__, shown))

    def _shown(self, value: object) -> object:
        """Return it without what differs from run to run: the numbers of ids."""
        text = value.value if isinstance(value, ConnectionId) else value
        return re.sub(r"\d+", "#", text) if isinstance(text, str) and ":" in text else text


def _seen(command: Command) -> tuple[str, ...]:
    return _SEEN.get(type(command), ())


async def outcome_of(query: str, caplog: pytest.LogCaptureFixture) -> list[object]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "pyjms.client"):
        outcome = await Scenario(query).run()
    logged = [r.getMessage() for r in caplog.records if "not yet started" in r.getMessage()]
    return [*outcome, len(logged)]


@pytest.fixture(autouse=True)
def chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)


async def test_the_scenario_always_has_the_same_outcome(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await outcome_of("", caplog) == await outcome_of("", caplog)


ELSEWHERE = {
    "alwaysSessionAsync": "tests/integration/client/test_listener_turns.py",
    "maxInflatedDataSizeRatio": "tests/integration/client/test_inflated_bodies.py",
    "consumerFailoverRedeliveryWaitPeriod": "tests/integration/failover/test_cut_connections.py",
    "rmIdFromConnectionId": "tests/integration/client/session/test_xa.py",
    "blobTransferPolicy.brokerUploadUrl": "tests/integration/client/producer/test_blobs.py",
    "blobTransferPolicy.bufferSize": "tests/integration/client/producer/test_blobs.py",
    "blobTransferPolicy.defaultUploadUrl": "tests/integration/client/producer/test_blobs.py",
    "blobTransferPolicy.uploadUrl": "tests/integration/client/producer/test_blobs.py",
}
"""Options whose effect shows elsewhere: the test that has it."""


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_the_effect_of_an_option_is_tested_elsewhere(name: str) -> None:
    text = (ROOT / ELSEWHERE[name]).read_text(encoding="utf-8")
    assert f"{name}=" in text or f'"{name.rpartition(".")[2]}"' in text


@pytest.mark.parametrize("name", sorted(JMS_OPTIONS.keys() - ELSEWHERE.keys()))
@pytest.mark.fact("activemq-edges N0")
async def test_an_option_has_an_effect(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    others = f"jms.{WITH[name]}" if name in WITH else ""
    value = value_of(name, ConnectionFactory("mock://defaults"))
    before = await outcome_of(others, caplog)
    after = await outcome_of(f"{others}&jms.{name}={value}".lstrip("&"), caplog)
    assert before != after


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_an_option_without_effect_is_logged_once_with_the_reason(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pyjms.client.options"):
        ConnectionFactory(f"mock://x?jms.{name}=1")
    [record] = caplog.records
    assert f"{name} ({IGNORED[name]})" in record.getMessage()
    assert record.levelno == logging.INFO


def test_the_table_of_values_names_options() -> None:
    assert VALUES.keys() | WITH.keys() <= JMS_OPTIONS.keys()
    assert not IGNORED.keys() & JMS_OPTIONS.keys()
