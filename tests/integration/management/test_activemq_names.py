"""The views have the attributes and operations of ActiveMQ 5.17.2's beans.

`activemq_5_17_2.txt` is what `program/ManagedBroker.java` printed about a running ActiveMQ:
B a Java class, K the keys of its object names, A an attribute (* if it can be written) with its
type, O an operation with its type, Q the fields of a queue in the JSON of `queryQueues`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import DestinationInfo, TransactionType, XATransactionId
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.slow_consumers import (
    AbortSlowAckConsumerStrategy,
    AbortSlowConsumerStrategy,
)
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import BrokerWith, broker_with
from tests.kit.servers.java_programs import JavaProgram, java_program

__all__ = ["broker_with", "java_program"]

HERE = Path(__file__).parent
RECORDED = (HERE / "activemq_5_17_2.txt").read_text(encoding="utf-8")
PREFIX = "org.apache.activemq.broker.jmx."

NO_COUNTERS = "it has no counters of its own: they are those of producers, consumers and queues"
SETTING = "a setting of the policy, which is read when the destination is created"
CLIENT = "a setting of the client, which it sends again after a reconnection"
STRATEGY = "settings of a strategy are immutable: several brokers and policies may share it"
LEFT_OUT = {
    "AbortSlowAckConsumerStrategyView": {
        "A MaxSlowCount* long": STRATEGY,
        "A MaxSlowDuration* long": STRATEGY,
        "A MaxTimeSinceLastAck* long": STRATEGY,
        "A IgnoreIdleConsumers* boolean": STRATEGY,
        "A IgnoreNetworkConsumers* boolean": STRATEGY,
    },
    "AbortSlowConsumerStrategyView": {
        "A MaxSlowCount* long": STRATEGY,
        "A MaxSlowDuration* long": STRATEGY,
    },
    "ConnectionView": {
        "A DispatchQueueSize int": "dispatches are written at once, or wait in their subscriptions",
        "O resetStatistics() void": NO_COUNTERS,
        "O start() void": "a connection that is listed has been started",
    },
    "ConnectorView": {
        "O resetStatistics() void": NO_COUNTERS,
        "O enableStatistics() void": NO_COUNTERS,
        "O disableStatistics() void": NO_COUNTERS,
    },
    "DurableSubscriptionView": {"A Selector* java.lang.String": CLIENT},
    "InactiveDurableSubscriptionView": {"A Selector* java.lang.String": CLIENT},
    "PersistenceAdapterView": {
        "O resetStatistics() java.lang.String": "the store measures no times of reads and writes",
    },
    "QueueView": {
        "A MaxAuditDepth* int": SETTING,
        "A MaxPageSize* int": SETTING,
        "A MaxProducersToAudit* int": SETTING,
        "A MemoryUsagePortion* float": "memory limits are bytes: set MemoryLimit",
    },
    "SubscriptionView": {"A Selector* java.lang.String": CLIENT},
    "TopicSubscriptionView": {
        "A MaximumPendingQueueSize* int": SETTING,
        "A Selector* java.lang.String": CLIENT,
    },
}
LEFT_OUT["TopicView"] = LEFT_OUT["QueueView"]
"""What ours have not, or (with *) cannot write, and why."""


def beans(text: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return the keys and the members of each bean by the class without its package."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "B":
            keys, members = set[str](), set[str]()
            found[rest.removeprefix(PREFIX)] = keys, members
        elif kind == "K":
            keys.add(rest)
        elif kind in "AO":
            members.add(line)
    return found


ACTIVEMQ = beans(RECORDED)
FIELDS = next(line for line in RECORDED.splitlines() if line.startswith("Q ")).split()[1:]


@pytest.fixture
async def managed(broker_with: BrokerWith) -> AsyncIterator[BrokerService]:
    """A broker that has one view of each kind at least."""
    policies = PolicyMap(
        [
            PolicyEntry(
                destination=Queue("slow"), slow_consumer_strategy=AbortSlowConsumerStrategy()
            ),
            PolicyEntry(
                destination=Queue("late"), slow_consumer_strategy=AbortSlowAckConsumerStrategy()
            ),
        ]
    )
    async with broker_with(scheduler_support=True, policies=policies) as (broker, client):
        await broker.tcp_url()
        await client.producer()
        await client.producer(Queue("orders"))
        await client.consumer(Queue("orders"))
        await client.consumer(Topic("news"))
        for name in ("slow", "late"):
            await client.consumer(Queue(name))
        await client.consumer(Topic("news"), subscription_name="active")
        inactive = await client.consumer(Topic("news"), subscription_name="inactive")
        await client.remove(inactive)
        temporary = TemporaryQueue(f"{client.name}:1")
        await client.request(DestinationInfo(client.connection_id, temporary, 0))
        xid = XATransactionId(7, b"\x01\x02", b"\x03")
        await client.transaction(TransactionType.BEGIN, xid)
        await client.send(Queue("orders"), "x", transaction_id=xid)
        await client.transaction(TransactionType.PREPARE, xid)
        yield broker.service


def our_beans(service: BrokerService) -> dict[str, tuple[set[str], set[str]]]:
    found: dict[str, tuple[set[str], set[str]]] = {}
    for view in service.management.find("*:*"):
        keys, members = found.setdefault(view.kind.java_class.removeprefix(PREFIX), (set(), set()))
        keys.add(",".join(sorted(view.name.keys)))
        for name, attribute in view.kind.attributes.items():
            star = "*" if name in view.kind.writers else ""
            members.add(f"A {name}{star} {attribute.type}")
        for overloads in view.kind.operations.values():
            members.update(f"O {each.signature} {each.type}" for each in overloads)
    return found


@pytest.mark.fact("activemq-edges JX0")
async def test_views_have_what_the_beans_of_activemq_have(managed: BrokerService) -> None:
    ours = our_beans(managed)
    assert ours.keys() >= ACTIVEMQ.keys()
    for name, (keys, members) in ACTIVEMQ.items():
        own_keys, own = ours[name]
        assert keys <= own_keys, name
        assert sorted(members - own) == sorted(LEFT_OUT.get(name, {})), name


async def test_every_attribute_can_be_read(managed: BrokerService) -> None:
    for view in managed.management.find("*:*"):
        json.dumps(view.get_all())


@pytest.mark.parametrize("kind", ["Queue", "Topic"])
async def test_pages_of_destinations_have_the_fields_of_activemq(
    managed: BrokerService, kind: str
) -> None:
    broker = f"org.apache.activemq:type=Broker,brokerName={managed.broker_name}"
    query = json.dumps({"name": "", "filter": "", "sortColumn": "name", "sortOrder": "asc"})
    text = await managed.management.invoke(broker, f"query{kind}s", query, 1, 2)
    assert isinstance(text, str)
    page = json.loads(text)
    assert len(page["data"]) == (2 if kind == "Queue" else 1)
    own = {"enableAudit", "messagesCached"}
    only_queues = {
        *("cacheEnabled", "cursorFull", "cursorMemoryUsage", "cursorPercentUsage"),
        *("messageGroupType", "messageGroups", "paused"),
    }
    expected = set(FIELDS) - own - (only_queues if kind == "Topic" else set())
    expected |= {"enqueueRate", "dequeueRate"}
    expected |= {"firstMessageAge"} if kind == "Queue" else set()
    for values in page["data"].values():
        assert set(values) == expected


@pytest.mark.activemq
def test_the_recorded_beans_are_those_of_activemq(
    java_program: JavaProgram, tmp_path: Path
) -> None:
    command = [*java_program(HERE / "program"), "ManagedBroker", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert beans(done.stdout) == ACTIVEMQ
