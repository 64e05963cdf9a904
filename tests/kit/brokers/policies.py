"""ActiveMQ 5.17.2 and our broker with the same policies, for scenarios that run on both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms_broker.api.policies import SubscriptionRecoveryPolicy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.eviction import ConstantPendingMessageLimitStrategy
from pyjms_broker.policy.recovery import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import Connect, RawClient
from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_brokers import ACTIVEMQ
from tests.kit.servers.java_programs import JavaProgram

COUNT = FixedCountSubscriptionRecoveryPolicy(maximum_size=3)
_ADVISED: Any = {
    "send_advisory_if_no_consumers": True,
    "advisory_for_delivery": True,
    "advisory_for_consumed": True,
    "advisory_for_discarding_messages": True,
    "advisory_for_slow_consumers": True,
    "advisory_for_fast_producers": True,
    "advisory_when_full": True,
}


def policies() -> PolicyMap:
    """Return the policies of the Java program PolicyBroker."""
    return PolicyMap(
        [
            PolicyEntry(destination=Topic("advised.>"), **_ADVISED),
            PolicyEntry(destination=Queue("advised.>"), **_ADVISED),
            PolicyEntry(destination=Queue("bodies.>"), include_body_for_advisory=True, **_ADVISED),
            PolicyEntry(
                destination=Queue("full.>"),
                memory_limit=3000,
                producer_flow_control=False,
                **_ADVISED,
            ),
            PolicyEntry(
                destination=Topic("discarding.>"),
                pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=1),
                **_ADVISED,
            ),
            _recovering("count.>", COUNT),
            _recovering("size.>", FixedSizedSubscriptionRecoveryPolicy(maximum_size=3500)),
            _recovering("timed.>", TimedSubscriptionRecoveryPolicy(recover_duration=0.6)),
            _recovering("last.>", LastImageSubscriptionRecoveryPolicy()),
            _recovering("none.>", NoSubscriptionRecoveryPolicy()),
            _recovering("always.>", COUNT, always_retroactive=True),
            _recovering("VirtualTopic.count.>", COUNT),
            _recovering("ActiveMQ.Advisory.Producer.Queue.kept.>", COUNT),
        ]
    )


def _recovering(
    topic: str, policy: SubscriptionRecoveryPolicy, *, always_retroactive: bool = False
) -> PolicyEntry:
    return PolicyEntry(
        destination=Topic(topic),
        subscription_recovery_policy=policy,
        always_retroactive=always_retroactive,
    )


@pytest.fixture(scope="session")
def activemq_with_policies(
    java_program: JavaProgram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an ActiveMQ in memory with the policies."""
    log = tmp_path_factory.mktemp("activemq-policies") / "log"
    with started([*java_program(ACTIVEMQ), "PolicyBroker"], log) as child:
        yield accepted_url(child, log).replace("localhost", "127.0.0.1")


@pytest.fixture(params=["activemq", "pyjms"])
async def policy_broker(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The URL of a broker with the policies: ActiveMQ, then ours."""
    if request.param == "activemq":
        yield request.getfixturevalue("activemq_with_policies")
        return
    service = BrokerService(
        "with-policies", persistent=False, policies=policies(), use_virtual_dest_subs=True
    )
    async with EmbeddedTestBroker(service) as broker:
        yield await broker.tcp_url()


@pytest.fixture
async def connect(policy_broker: str) -> AsyncIterator[Connect]:
    """Makes connections to the broker, closed after the test."""
    async with AsyncExitStack() as stack:

        async def make() -> RawClient:
            client = RawClient(create_transport(policy_broker))
            await client.open()
            stack.push_async_callback(client.close)
            return client

        yield make
