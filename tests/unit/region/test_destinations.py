"""Destinations: creation, removal and their subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from pyjms.errors import (
    DestinationDoesNotExistException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.runtime.event_loop import LoopHandle
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
)
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import DestinationFilter
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.expiry import ExpiryScanner
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DestinationLimits
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from tests.kit.brokers.region import Broker, Client, ManualClock, PagedAdapter
from tests.kit.values import present

if TYPE_CHECKING:
    from pyjms_broker.region.base_destination import BaseDestination

Q = Queue("Q")


def existing(broker: Broker) -> Any:
    return {d.qualified_name for d in broker.region.destinations()}


@pytest.mark.fact("activemq-broker D1")
def test_four_kinds_are_four_name_spaces(broker: Broker, client: Client) -> None:
    kinds = (Queue("same"), Topic("same"), TemporaryQueue("same"), TemporaryTopic("same"))
    made = [broker.region.add_destination(client.context, d, True) for d in kinds]
    assert len(set(made)) == 4
    consumers = [client.consume(d) for d in kinds]
    for kind in kinds:
        client.send(kind, kind.qualified_name)
    assert [client.received(c) for c in consumers] == [[k.qualified_name] for k in kinds]


@pytest.mark.fact("activemq-broker D3")
async def test_what_creates_destinations(broker: Broker, client: Client) -> None:
    client.consume(Queue("by.consumer"))
    client.send(Queue("by.send"), "x")
    broker.region.add_producer(
        client.context, ProducerInfo(ProducerId("c", 1), Queue("by.producer"))
    )
    broker.region.add_destination_info(
        client.context, DestinationInfo(destination=Topic("by.info"), operation_type=0)
    )
    for nothing in ("wild.*", "wild.>", "com,posite"):
        client.consume(Queue(nothing))
    broker.region.add_producer(client.context, ProducerInfo(ProducerId("c", 2)))
    assert existing(broker) == {
        "queue://by.consumer",
        "queue://by.send",
        "queue://by.producer",
        "topic://by.info",
    }


@pytest.mark.fact("activemq-broker D3")
async def test_stored_destinations_are_restored_at_the_start(
    make_broker: type[Broker], paged: PagedAdapter
) -> None:
    before = make_broker(store=paged).client()
    before.send(Queue("stored"), "1", persistent=True)
    before.send(Queue("not.stored"), "1")
    durable = before.consume(Topic("durable"), subscription_name="s")
    before.close(durable)
    broker = make_broker(store=paged)
    await broker.region.start()
    assert existing(broker) >= {"queue://stored", "topic://durable"}
    assert broker.texts(Queue("stored")) == ["1"]
    await broker.region.stop()


@pytest.mark.fact("activemq-broker D3")
def test_wildcard_and_composite_consumers_attach_to_existing_and_new_destinations(
    client: Client,
) -> None:
    client.send(Queue("A.1"), "early")
    wild = client.consume(Queue("A.*"))
    composite = client.consume(Queue("X,Y"))
    for name in ("A.1", "A.2", "A.2.3", "X", "Y", "Z"):
        client.send(Queue(name), name)
    assert client.received(wild) == ["early", "A.1", "A.2"]
    assert client.received(composite) == ["X", "Y"]


@pytest.mark.fact("activemq-broker D4", "openwire-encoding 14/temp destination gone")
def test_temporary_destinations_are_created_by_info_only(broker: Broker, client: Client) -> None:
    temp = TemporaryQueue("ID:c:1")
    for use in (lambda: client.send(temp, "x"), lambda: client.consume(temp)):
        with pytest.raises(DestinationDoesNotExistException) as error:
            use()
        assert error.value.reason == "temp-queue://ID:c:1"  # what Java clients look at
        assert "The destination temp-queue://ID:c:1 does not exist." in str(error.value)
    broker.region.add_destination_info(client.context, DestinationInfo(destination=temp))
    consumer = client.consume(temp)
    client.send(temp, "x", persistent=True)
    assert client.received(consumer) == ["x"]
    assert broker.region.store.destinations() == set()
    lenient = RegionBroker(MemoryPersistenceAdapter(), allow_temp_auto_creation_on_send=True)
    client.broker = lenient
    client.exchange.region_destination = None
    client.send(temp, "x")
    assert temp in lenient.destinations()


@pytest.mark.fact("activemq-broker D6")
def test_a_send_to_a_pattern_is_a_send_to_that_name(broker: Broker, client: Client) -> None:
    other = client.consume(Queue("A.B"))
    client.send(Queue("A.*"), "x")
    assert client.received(other) == []
    assert broker.texts(Queue("A.*")) == ["x"]


@pytest.mark.fact("openwire-encoding 14/destination with consumers removed", "activemq-broker D9")
def test_removing_needs_no_subscription_or_a_timeout(broker: Broker, client: Client) -> None:
    consumer = client.consume(Q, prefetch=1)
    wide = client.consume(Queue(">"), prefetch=1)
    for text in ("1", "2", "3"):
        client.send(Q, text, persistent=True)
    with pytest.raises(
        JMSException, match=r"^Destination: queue://Q still has an active subscription: "
    ):
        broker.region.remove_destination(client.context, Q, 0)
    info = DestinationInfo(destination=Q, operation_type=1, timeout=1000)
    broker.region.remove_destination_info(client.context, info)
    assert existing(broker) == set()
    assert broker.region.store.destinations() == set()
    assert broker.region.system_usage.memory.used == 0
    broker.region.remove_destination_info(client.context, info)  # again is no error
    client.dispatches.clear()
    client.send(Q, "new")
    assert client.received(consumer) == ["new"]  # attached to the new one
    client.close(wide)


def test_a_temporary_destination_is_removed_with_its_messages(
    broker: Broker, client: Client
) -> None:
    temp = TemporaryQueue("ID:c:1")
    broker.region.add_destination_info(client.context, DestinationInfo(destination=temp))
    stranger = broker.client()
    consumer = stranger.consume(temp, prefetch=1)  # the broker does not mind whose it is
    client.send(temp, "1")
    client.send(temp, "2")
    broker.region.remove_destination_info(
        client.context, DestinationInfo(destination=temp, operation_type=1)
    )
    assert stranger.received(consumer) == ["1"]
    assert existing(broker) == set()
    assert broker.region.system_usage.memory.used == 0
    with pytest.raises(DestinationDoesNotExistException):
        client.send(temp, "3")


@pytest.mark.fact("activemq-broker D12", "activemq-broker 2.1/maxDestinations")
def test_the_number_of_destinations_can_be_limited(make_broker: type[Broker]) -> None:
    assert PolicyEntry().max_destinations == -1
    broker = make_broker(PolicyEntry(destination=Queue("A.>"), max_destinations=2))
    client = broker.client()
    client.send(Queue("A.1"), "x")
    client.send(Queue("A.2"), "x")
    client.send(Queue("B"), "x")
    with pytest.raises(IllegalStateException) as error:
        client.send(Queue("A.3"), "x")
    assert str(error.value) == (
        "The maxmimum number of destinations allowed (2) for the policy queue://A.> "
        "has already been reached."
    )
    limited = make_broker(PolicyEntry(destination=Topic(">"), max_destinations=0)).client()
    limited.consume(Topic("ActiveMQ.Advisory.Connection"))
    with pytest.raises(IllegalStateException):
        limited.consume(Topic("T"))


def test_producers_are_counted(broker: Broker, client: Client) -> None:
    info = ProducerInfo(ProducerId("c", 1), Q)
    broker.region.add_producer(client.context, info)
    assert broker.queue(Q).statistics.producers == 1
    broker.region.remove_producer(client.context, info)
    assert broker.queue(Q).statistics.producers == 0


def test_client_ids_are_unique(broker: Broker) -> None:
    one, two = broker.client("same"), broker.client("same")
    info = ConnectionInfo(ConnectionId("c1"), "same")
    broker.region.add_connection(one.context, info)
    broker.region.add_connection(one.context, info)  # replay of the same connection
    with pytest.raises(InvalidClientIDException) as error:
        broker.region.add_connection(two.context, ConnectionInfo(ConnectionId("c2"), "same"))
    assert str(error.value) == "Broker: b - Client: same already connected from tcp://client:1"
    broker.region.remove_connection(two.context, info, None)
    with pytest.raises(InvalidClientIDException):
        broker.region.add_connection(two.context, info)
    broker.region.remove_connection(one.context, info, None)
    broker.region.add_connection(two.context, info)
    with pytest.raises(
        InvalidClientIDException, match=r"^No clientID specified for connection request$"
    ):
        broker.region.add_connection(one.context, ConnectionInfo(ConnectionId("c3")))


def test_commands_without_a_destination_are_refused(broker: Broker, client: Client) -> None:
    message = client.message(Q, "x")
    message.destination = None
    with pytest.raises(InvalidDestinationException):
        client.send(Q, "", message=message)
    with pytest.raises(InvalidDestinationException):
        client.consume(None)  # type: ignore[arg-type]
    for call in (broker.region.add_destination_info, broker.region.remove_destination_info):
        with pytest.raises(InvalidDestinationException):
            call(client.context, DestinationInfo())


def test_new_destinations_pass_the_interceptor(broker: Broker, client: Client) -> None:
    class Loud(DestinationFilter):
        def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
            message.type = f"{message.type}!"
            return super().send(exchange, message)

    broker.region.destination_interceptor = Loud
    consumer = client.consume(Q)
    client.send(Q, "hey")
    assert client.received(consumer) == ["hey!"]
    (entrance,) = broker.region.destinations_matching(Queue("*"))
    assert isinstance(entrance, Loud)
    assert entrance.statistics is broker.region.destinations()[Q].statistics
    assert entrance.consumers == [consumer]
    assert [r.message.type for r in entrance.browse()] == ["hey!"]
    entrance.expire_messages()
    assert not entrance.disposed
    assert not entrance.is_dead_letter_queue
    broker.region.remove_destination(client.context, Q, 1)
    assert entrance.disposed


def test_matching_destinations(broker: Broker, client: Client) -> None:
    for name in ("A.1", "A.2", "B"):
        client.send(Queue(name), "x")

    def names(pattern: str) -> set[str]:
        found = broker.region.destinations_matching(Queue(pattern))
        return {entry.destination.physical_name for entry in found}

    assert names("A.*") == {"A.1", "A.2"}
    assert names("B") == {"B"}
    assert names("C") == set()
    assert names("B,A.1") == {"B", "A.1"}
    client.send(Queue("A.3"), "x")
    assert names("A.*") == {"A.1", "A.2", "A.3"}


def test_a_cached_entry_point_is_not_used_after_removal(broker: Broker, client: Client) -> None:
    destination = Queue("gone")
    client.send(destination, "1")
    broker.region.remove_destination(client.context, destination, 1)
    client.send(destination, "2")
    assert broker.texts(destination) == ["2"]


def test_stamps_and_marshalled_bytes(broker: Broker, client: Client, clock: ManualClock) -> None:
    from pyjms.wire.openwire.fast_reader import unmarshal_body
    from pyjms.wire.openwire.fast_writer import marshal_body

    message = client.message(Q, "x", persistent=True)
    marshal_body(message)
    consumer = client.consume(Q)
    client.send(Q, "", message=message)
    sent = client.dispatches_of(consumer)[0].message
    assert sent is not None
    seen = unmarshal_body(sent.TYPE, present(sent.raw))
    for one in (sent, seen):
        assert one is not None
        assert present(one.message_id).broker_sequence_id == 1
        assert one is not None
        assert one.broker_in_time == clock.time_ms()
        assert one is not None
        assert one.broker_out_time == clock.time_ms()
    assert seen.message_id == message.message_id
    assert seen.content == message.content


def test_the_maximum_of_destinations_is_enforced(broker: Broker) -> None:
    region = RegionBroker(
        MemoryPersistenceAdapter(), destination_limits=DestinationLimits(maximum=2)
    )
    context = ConnectionContext()
    for name in ("a", "b"):
        region.add_destination(context, Queue(name))
    assert region.add_destination(context, Queue("a")) is not None
    with pytest.raises(ResourceAllocationException, match=r"c cannot be created: the broker has 2"):
        region.add_destination(context, Queue("c"))
    region.add_destination(region.context, Queue("the broker's own"))
    region.remove_destination(context, Queue("a"), 0)
    region.remove_destination(context, Queue("b"), 0)
    region.add_destination(context, Queue("c"))


def test_the_length_of_names_is_limited(broker: Broker, client: Client) -> None:
    with pytest.raises(InvalidDestinationException, match="8193 characters; at most 8192"):
        client.send(Queue("x" * 8193), "1")
    client.send(Queue("x" * 8192), "1")


async def test_a_scan_of_many_queues_lets_others_run(broker: Broker, clock: ManualClock) -> None:
    turns, seen = [0], set[int]()
    loop = LoopHandle()

    def ready() -> bool:
        """Called before each queue: record the loop's turn, and count the next one."""
        seen.add(turns[0])
        loop.call_next(lambda: turns.__setitem__(0, turns[0] + 1))
        return True

    scanner = ExpiryScanner(ready)
    for number in range(350):
        created = broker.region.add_destination(broker.region.context, Queue(f"q{number}"))
        scanner.add(cast("BaseDestination", created.base))
    scanner.start()
    await clock.advance(30)
    await anyio.wait_all_tasks_blocked()
    await scanner.stop()
    assert len(seen) >= 2


def test_the_matches_of_a_pattern_follow_its_destinations(broker: Broker, client: Client) -> None:
    region = broker.region

    def found() -> list[str]:
        return [
            each.destination.physical_name for each in region.destinations_matching(Queue("A.*"))
        ]

    for name in ("A.1", "B.1", "A.2"):
        client.send(Queue(name), "x")
    assert found() == ["A.1", "A.2"]
    client.send(Queue("B.2"), "x")
    client.send(Queue("A.3"), "x")
    assert found() == ["A.1", "A.2", "A.3"]
    region.remove_destination(client.context, Queue("A.2"), 0)
    assert found() == ["A.1", "A.3"]


def test_a_new_destination_is_compared_with_few_patterns(
    broker: Broker, client: Client, matched: list[Destination]
) -> None:
    """Nor does a client with a composite or an exact name compare it with all destinations."""
    consumers = [client.consume(Queue(f"shop{number}.>,other{number}")) for number in range(50)]
    matched.clear()
    client.send(Queue("shop7.a"), "x")
    assert client.received(consumers[7]) == ["x"]
    assert set(matched) == {Queue("shop7.>")}
    matched.clear()
    client.consume(Queue("shop7.a,shop8.a"))
    assert matched == []
