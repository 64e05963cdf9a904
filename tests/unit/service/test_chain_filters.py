"""The small built-in filters: stop guard, user id, composite destinations."""

from __future__ import annotations

import inspect

import pytest

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQMessage,
    ActiveMQTextMessage,
    MessageId,
    ProducerId,
    ProducerInfo,
)
from pyjms.wire.openwire.fast_reader import unmarshal_body
from pyjms.wire.openwire.fast_writer import marshal_body
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import copy_for_destination
from pyjms_broker.filters.composite_destinations import CompositeDestinationBroker
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.service.filter_chain import ErrorBroker, StopGuard, UserIDBroker
from pyjms_broker.store.memory import MemoryPersistenceAdapter


class Region(ErrorBroker):
    def __init__(self) -> None:
        self.sent: list[ActiveMQMessage] = []
        self.producers: list[tuple[str, Destination | None]] = []
        self.stopped = 0
        self.answers: list[Completion] = []

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        self.stopped += 1

    def send(  # type: ignore[override]  # of a broker that refuses every call
        self, exchange: ProducerExchange, message: ActiveMQMessage
    ) -> Completion:
        self.sent.append(message)
        if self.answers:
            return self.answers.pop(0)
        return COMPLETED

    def add_producer(  # type: ignore[override]
        self, context: ConnectionContext, info: ProducerInfo
    ) -> None:
        self.producers.append(("add", info.destination))

    def remove_producer(  # type: ignore[override]
        self, context: ConnectionContext, info: ProducerInfo
    ) -> None:
        self.producers.append(("remove", info.destination))


def exchange(user: str | None = None) -> ProducerExchange:
    context = ConnectionContext()
    context.user_name = user
    return ProducerExchange(context)


def text(destination: Destination) -> ActiveMQTextMessage:
    producer = ProducerId("c", 1, 1)
    return ActiveMQTextMessage(
        producer, destination, message_id=MessageId(None, producer, 7), content=b"x"
    )


RUNS = ("send_run", "acknowledge_run")
"""They take nothing of a stopped broker, so that each command is a call of its own."""


@pytest.mark.fact("activemq-broker B2")
async def test_after_stop_every_call_is_refused() -> None:
    region = Region()
    guard = StopGuard(region)
    await guard.start()
    guard.send(exchange(), text(Queue("a")))
    await guard.stop()
    await guard.stop()
    assert region.stopped == 1
    calls = [
        (name, member)
        for name, member in inspect.getmembers(Broker, inspect.isfunction)
        if not name.startswith("_") and name not in ("start", "stop", *RUNS)
    ]
    assert len(calls) > 25
    for name, member in calls:
        arguments = [None] * (len(inspect.signature(member).parameters) - 1)
        with pytest.raises(IllegalStateException, match=r"^Broker has been stopped$"):
            getattr(guard, name)(*arguments)
    with pytest.raises(IllegalStateException, match="Broker has been stopped"):
        await guard.start()


async def test_a_region_that_fails_to_stop_is_guarded_all_the_same() -> None:
    class Stubborn(Region):
        async def stop(self) -> None:
            raise OSError("no")

    guard = StopGuard(Stubborn())
    with pytest.raises(OSError, match="no"):
        await guard.stop()
    with pytest.raises(IllegalStateException):
        guard.destinations()


def test_the_user_id_of_the_client_is_replaced_by_the_login_name() -> None:
    region = Region()
    broker = UserIDBroker(region)
    claimed = text(Queue("a"))
    claimed.user_id = "admin"
    claimed.raw = b"as received"
    broker.send(exchange("joe"), claimed)
    assert region.sent[0].user_id == "joe"
    assert region.sent[0].raw is None
    honest = text(Queue("a"))
    honest.user_id = "joe"
    honest.raw = b"as received"
    broker.send(exchange("joe"), honest)
    assert region.sent[1].raw == b"as received"


def composites_before(region: Region) -> CompositeDestinationBroker:
    return CompositeDestinationBroker(region, RegionBroker(MemoryPersistenceAdapter()))


@pytest.mark.fact("activemq-broker B4")
def test_composite_sends_and_producers_are_split() -> None:
    region = Region()
    broker = composites_before(region)
    whole = Queue("a,topic://b, c")
    message = text(whole)
    marshal_body(message)
    assert broker.send(exchange(), message) is COMPLETED
    first, second, third = region.sent
    assert first is message
    assert [m.destination for m in region.sent] == [Queue("a"), Topic("b"), Queue("c")]
    assert [m.original_destination for m in region.sent] == [whole] * 3
    assert first.message_id == second.message_id == third.message_id
    assert len({id(m.message_id) for m in region.sent}) == 3
    assert second.content == b"x"
    for sent in region.sent:  # not what was received, which names another place
        found = unmarshal_body(sent.TYPE, marshal_body(sent))
        assert (found.destination, found.original_destination) == (sent.destination, whole)

    info = ProducerInfo(ProducerId("c", 1, 1), whole, window_size=5, response_required=True)
    broker.add_producer(ConnectionContext(), info)
    broker.remove_producer(ConnectionContext(), info)
    assert region.producers == [
        (call, d) for call in ("add", "remove") for d in (Queue("a"), Topic("b"), Queue("c"))
    ]
    assert info.destination is whole


def test_a_single_destination_passes_unchanged() -> None:
    region = Region()
    broker = composites_before(region)
    message = text(Queue("a"))
    message.raw = b"as received"
    broker.send(exchange(), message)
    assert region.sent == [message]
    assert message.raw == b"as received"
    assert message.original_destination is None
    broker.add_producer(ConnectionContext(), ProducerInfo())
    assert region.producers == [("add", None)]


def test_a_composite_send_is_done_when_all_its_parts_are() -> None:
    region = Region()
    slow = Completion()
    region.answers = [Completion(), slow]
    region.answers[0].complete()
    answer = composites_before(region).send(exchange(), text(Queue("a,b")))
    assert answer is not COMPLETED
    assert not answer.done
    slow.complete()
    assert answer.done


def test_a_copy_has_every_field_of_its_class() -> None:
    blob = ActiveMQBlobMessage("http://x", "text/plain", deleted_by_broker=True)
    blob.correlation_id = "7"
    copy = copy_for_destination(blob, Queue("q"), None)
    assert isinstance(copy, ActiveMQBlobMessage)
    assert (copy.remote_blob_url, copy.mime_type, copy.deleted_by_broker) == (
        "http://x", "text/plain", True,
    )  # fmt: skip
    assert copy.correlation_id == "7"
    assert copy.message_id is None
