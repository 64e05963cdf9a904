"""The accepting side of a connection: links, credit, deliveries, settlement and windows."""

from __future__ import annotations

import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from pyjms.errors import LocalProtocolError
from pyjms.wire.amqp.engine import EngineSettings
from pyjms.wire.amqp.format import AmqpFormat, Frame, Item
from pyjms.wire.amqp.links import Receiver
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    SENDER,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declared,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Performative,
    Rejected,
    Source,
    State,
    Target,
    TransactionalState,
    Transfer,
)
from pyjms.wire.amqp.values import Symbol
from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from tests.kit.amqp.peer import opened


# attach and detach
@pytest.mark.fact("amqp-connector A50")
def test_an_attached_sender_is_echoed() -> None:
    peer = opened()
    source, target = Source("a"), Target("queue://Q", capabilities=["queue"])
    peer.send(Attach("s", 3, SENDER, 1, 1, source, target, initial_delivery_count=7))
    assert peer.one(Attach) == Attach("s", 3, RECEIVER, 1, 0, source, target)
    assert peer.links[0].delivery_count == 7


@pytest.mark.fact("amqp-connector A50")
def test_an_attached_receiver_is_echoed() -> None:
    peer = opened()
    source, target = Source("queue://Q"), Target("x")
    peer.send(Attach("r", 0, RECEIVER, 0, 1, source, target))
    expected = Attach("r", 0, SENDER, 0, 0, source, target, initial_delivery_count=0)
    assert peer.one(Attach) == expected


def test_what_is_attached_may_differ_from_what_was_asked() -> None:
    peer = opened(refuses="attach")
    link = peer.sender()
    link.accept(peer, target=Target("temp"), offered_capabilities=["c"], properties={"p": 1})
    answer = peer.one(Attach)
    assert answer.target == Target("temp")
    assert answer.offered_capabilities == ["c"]
    assert answer.properties == {"p": 1}


@pytest.mark.fact("amqp-connector A51")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_link_can_be_refused(role: bool) -> None:
    peer = opened(refuses="attach")
    error = Error("amqp:not-found", "no")
    peer.send(Attach("l", 4, role, source=Source("a"), target=Target("b")))
    peer.links[0].refuse(error)
    answer, detach = peer.bodies()
    assert isinstance(answer, Attach)
    assert (answer.source is None, answer.target is None) == (role is RECEIVER, role is SENDER)
    assert detach == Detach(4, True, error)
    peer.send(Detach(4, True))
    assert peer.engine.links == 0
    assert peer.bodies() == []


@pytest.mark.fact("amqp-connector A110")
def test_a_coordinator() -> None:
    peer = opened()
    peer.send(Attach("t", 0, SENDER, target=Coordinator(["amqp:local-transactions"])))
    (link,) = peer.links
    assert isinstance(link, Receiver)
    assert link.is_coordinator
    assert peer.one(Attach).target == Coordinator(["amqp:local-transactions"])


@pytest.mark.fact("amqp-connector A64")
@pytest.mark.parametrize("closed", [True, False])
def test_a_detached_link(closed: bool) -> None:
    peer = opened()
    peer.sender(2)
    peer.items()
    error = Error("amqp:internal-error")
    peer.send(Detach(2, closed, error))
    assert peer.events[-1] == ("detach", "s", closed, error)
    assert peer.one(Detach) == Detach(2, closed)
    assert peer.engine.links == 0


@pytest.mark.fact("amqp-connector A65")
def test_the_broker_can_detach() -> None:
    peer = opened()
    link = peer.receiver(0, credit=5)
    error = Error("amqp:internal-error", "Receiver forcably closed")
    peer.items()
    link.detach(closed=True, error=error)
    assert peer.one(Detach) == Detach(0, True, error)
    assert link.credit == 0
    peer.flow(0, 3)
    assert link.credit == 0
    peer.send(Detach(0, True))
    assert peer.engine.links == 0
    assert peer.bodies() == []


def test_what_follows_an_unanswered_attach_waits_for_the_answer() -> None:
    peer = opened(refuses="attach")
    peer.receiver(0, credit=3)
    peer.flow(0, 4)
    peer.send(Detach(0, True))
    assert peer.events == [("attach", "r")]
    peer.accept(peer.links[0])
    assert peer.events[1:] == [("credit", "r", 4), ("detach", "r", True, None)]
    assert [type(body) for body in peer.bodies()] == [Attach, Detach]
    assert peer.engine.links == 0


def test_a_handle_can_be_used_again_before_the_broker_has_detached() -> None:
    peer = opened(refuses="detach")
    former = peer.sender(0, "first")
    peer.send(Detach(0, True))
    peer.sender(0, "second")
    answers = [body for body in peer.bodies() if isinstance(body, Attach)]
    assert [(answer.name, answer.handle) for answer in answers] == [("first", 0), ("second", 1)]
    former.detach()
    assert peer.one(Detach) == Detach(0, True)
    assert peer.engine.links == 1


@pytest.mark.fact("amqp-connector A63")
def test_links_of_one_name() -> None:
    peer = opened()
    peer.begin(1)
    peer.sender(0, "same")
    peer.send(Attach("same", 0, SENDER, target=Target("q")), channel=1)
    assert len(peer.links) == 2


@pytest.mark.fact("amqp-connector A175")
def test_links_are_limited() -> None:
    peer = opened(EngineSettings(max_links=1))
    peer.sender(0)
    peer.items()
    peer.send(Attach("more", 1, SENDER, target=Target("q")))
    _, detach = peer.bodies()
    assert detach == Detach(1, True, Error("amqp:resource-limit-exceeded", "Too many links"))
    peer.send(Attach("more", 2, SENDER, target=Target("q")))
    assert peer.one(Close).error == Error("amqp:resource-limit-exceeded", "Too many links")


def test_links_of_an_ended_session_are_no_longer_counted() -> None:
    peer = opened(refuses="detach")
    link = peer.sender(0)
    peer.send(Detach(0, True))
    peer.sender(0, "other")
    peer.send(End())
    assert peer.engine.links == 0
    link.detach()
    assert peer.engine.links == 0


# the client sends
def test_deliveries() -> None:
    peer = opened()
    link = peer.sender(0)
    link.grant(10)
    _, flow = peer.bodies()
    assert flow == Flow(0, 16383, 1, 2**31 - 1, 0, 0, 10)
    peer.send(Transfer(0, 0, b"tag", 5), b"one")
    peer.send(Transfer(0, 1, b"", 0, True), b"two")
    first, second = peer.deliveries
    assert (first.id, first.tag, first.message_format, first.payload) == (0, b"tag", 5, b"one")
    assert (first.settled, second.settled) == (False, True)
    assert (link.credit, link.delivery_count, link.unsettled) == (8, 2, 1)


def test_settlement_is_told() -> None:
    peer = opened()
    link = peer.sender(0)
    link.grant(10)
    peer.transfer(0)
    peer.transfer(1, settled=True)
    peer.items()
    for delivery in peer.deliveries:
        delivery.settle(ACCEPTED)
        delivery.settle(RELEASED)
    assert peer.one(Disposition) == Disposition(RECEIVER, 0, 0, True, ACCEPTED)
    assert link.unsettled == 0


def test_states_without_settlement() -> None:
    peer = opened()
    peer.sender(0).grant(10)
    peer.transfer(0)
    peer.items()
    state = TransactionalState(b"1", ACCEPTED)
    peer.deliveries[0].update(state)
    assert peer.one(Disposition) == Disposition(RECEIVER, 0, 0, False, state)
    peer.deliveries[0].settle(Declared(b"1"))
    assert peer.one(Disposition) == Disposition(RECEIVER, 0, 0, True, Declared(b"1"))


@pytest.mark.fact("amqp-connector A71")
def test_equal_settlements_are_told_as_ranges() -> None:
    peer = opened()
    peer.sender(0).grant(10)
    calls: list[Callable[[], object]] = []

    def defer(call: Callable[[], object]) -> bool:
        calls.append(call)
        return True

    peer.engine.defer = defer
    for number in range(8):
        peer.transfer(number)
    peer.items()
    states: list[State] = [ACCEPTED, ACCEPTED, ACCEPTED, Rejected(), RELEASED, RELEASED]
    for delivery, state in zip(peer.deliveries, states, strict=False):
        delivery.settle(state)
    peer.deliveries[7].settle(RELEASED)
    (call,) = calls
    call()
    assert peer.bodies() == [
        Disposition(RECEIVER, 0, 2, True, ACCEPTED),
        Disposition(RECEIVER, 3, 3, True, Rejected()),
        Disposition(RECEIVER, 4, 5, True, RELEASED),
        Disposition(RECEIVER, 7, 7, True, RELEASED),
    ]


def test_collected_settlements_precede_the_end() -> None:
    peer = opened()
    peer.sender(0).grant(10)
    peer.engine.defer = lambda _: True
    peer.transfer(0)
    peer.items()
    peer.deliveries[0].settle(ACCEPTED)
    peer.send(Close())
    assert [type(body) for body in peer.bodies()] == [Disposition, Close]


@pytest.mark.fact("amqp-connector A47")
def test_a_message_of_several_transfers() -> None:
    peer = opened()
    link = peer.sender(0)
    link.grant(1)
    peer.send(Transfer(0, 0, b"t", 0, more=True), b"a")
    peer.send(Transfer(0, more=True), b"b")
    peer.send(Transfer(0, 0, settled=True, state=TransactionalState(b"1")), b"c")
    (delivery,) = peer.deliveries
    assert delivery.payload == b"abc"
    assert delivery.settled
    assert delivery.state == TransactionalState(b"1")
    assert (link.credit, peer.engine.partial) == (0, 0)


def test_messages_of_several_links_may_be_mixed() -> None:
    peer = opened()
    peer.sender(0, "a").grant(1)
    peer.sender(1, "b").grant(1)
    peer.transfer(0, b"1", 0, more=True)
    peer.transfer(1, b"2", 1, more=True)
    peer.send(Transfer(0), b"3")
    peer.send(Transfer(1), b"4")
    assert [each.payload for each in peer.deliveries] == [b"13", b"24"]


@pytest.mark.fact("amqp-connector A176")
def test_an_aborted_message_gives_its_credit_back() -> None:
    peer = opened()
    link = peer.sender(0)
    link.grant(1)
    peer.items()
    peer.transfer(0, b"x", more=True)
    peer.send(Transfer(0, aborted=True))
    assert peer.one(Flow) == Flow(2, 16383, 1, 2**31 - 1, 0, 1, 1)
    assert peer.engine.partial == 0
    peer.transfer(1, b"y")
    assert [each.payload for each in peer.deliveries] == [b"y"]


@pytest.mark.fact("amqp-connector A10")
@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 6, b"x" * 6]])
def test_a_message_may_be_too_large(parts: list[bytes]) -> None:
    peer = opened(EngineSettings(max_message_size=10))
    peer.sender(0).grant(5)
    peer.items()
    for left, part in zip(range(len(parts) - 1, -1, -1), parts, strict=True):
        peer.send(Transfer(0, 0, b"", more=left > 0), part)
    detach = peer.one(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:message-size-exceeded"
    assert peer.events[-1] == ("detach", "s", True, detach.error)
    assert peer.engine.partial == 0
    peer.send(Transfer(0), b"late")
    assert peer.bodies() == []


@pytest.mark.fact("amqp-connector A175")
def test_incomplete_messages_of_a_connection_are_limited() -> None:
    peer = opened(EngineSettings(max_message_size=10))
    for handle in range(2):
        peer.sender(handle, f"s{handle}").grant(5)
        peer.transfer(handle, b"x" * 6, handle, more=True)
    detach = peer.bodies()[-1]
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"
    assert peer.engine.partial == 6


def test_large_incomplete_messages_count_in_the_memory_of_all_connections() -> None:
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    others = UnfinishedFrame(budget)
    others.update(0, 1 << 19)
    peer = opened()
    peer.engine.unfinished = UnfinishedFrame(budget)
    peer.sender(0).grant(5)
    peer.transfer(0, bytes(1 << 17), more=True)
    assert budget.used == (1 << 19) + (1 << 18)
    peer.send(Transfer(0), b"")
    assert budget.used == 1 << 19
    peer.transfer(1, bytes(1 << 19), more=True)
    assert isinstance(peer.bodies()[-1], Close)
    assert budget.used == 1 << 19


@pytest.mark.fact("amqp-connector A174")
def test_more_messages_than_the_credit() -> None:
    peer = opened()
    peer.sender(0).grant(1)
    peer.items()
    peer.transfer(0)
    peer.transfer(1)
    detach = peer.one(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:transfer-limit-exceeded"
    assert len(peer.deliveries) == 1


def test_the_incoming_window_is_opened_again() -> None:
    peer = opened(EngineSettings(incoming_window=4))
    peer.sender(0).grant(10)
    peer.items()
    peer.transfer(0)
    assert peer.bodies() == []
    peer.transfer(1)
    assert peer.one(Flow) == Flow(2, 4, 1, 2**31 - 1)


def test_a_senders_flow_is_answered_if_it_wants_that() -> None:
    peer = opened()
    peer.sender(0).grant(10)
    peer.items()
    peer.flow(0, 10)
    assert peer.bodies() == []
    peer.flow(0, 10, echo=True)
    assert peer.one(Flow).link_credit == 10
    peer.flow(None, echo=True, delivery_count=None)
    assert peer.one(Flow).handle is None


# the client receives
@pytest.mark.fact("amqp-connector A84")
def test_credit_comes_with_flow() -> None:
    peer = opened()
    link = peer.receiver(0, credit=2)
    assert peer.events[-1] == ("credit", "r", 2)
    peer.items()
    link.send(b"one")
    assert (link.credit, link.delivery_count) == (1, 1)
    peer.flow(0, 5)  # before the client has counted the message
    assert link.credit == 4
    peer.flow(0, 5, delivery_count=1)
    assert link.credit == 5
    peer.flow(0, 0, delivery_count=1)
    assert link.credit == 0
    with pytest.raises(LocalProtocolError, match="has no credit"):
        link.send(b"two")


def test_messages_are_transferred() -> None:
    peer = opened()
    link = peer.receiver(7, credit=9)
    peer.items()
    link.send(b"one", context="kept", message_format=3)
    link.send(b"two", settled=True)
    link.send(b"three", state=TransactionalState(b"1"))
    frames = [item for item in peer.items() if isinstance(item, Frame)]
    assert [frame.body for frame in frames] == [
        Transfer(7, 0, b"\0", 3, False),
        Transfer(7, 1, b"", 0, True),
        Transfer(7, 2, b"\1", 0, False, state=TransactionalState(b"1")),
    ]
    assert [frame.payload for frame in frames] == [b"one", b"two", b"three"]
    assert link.unsettled == 2


@pytest.mark.fact("amqp-connector A87")
def test_tags_have_no_leading_zeros() -> None:
    peer = opened()
    link = peer.receiver(0, credit=300)
    tags = [link.send(b"").tag for _ in range(258)]
    assert tags[:2] == [b"\0", b"\1"]
    assert tags[255:] == [b"\xff", b"\1\0", b"\1\1"]


@pytest.mark.fact("amqp-connector A96")
def test_outcomes_are_told_for_each_delivery() -> None:
    peer = opened()
    link = peer.receiver(0, credit=9)
    sent = [link.send(b"", context=number) for number in range(4)]
    peer.items()
    peer.events.clear()
    peer.send(Disposition(RECEIVER, 0, 1, True, ACCEPTED))
    peer.send(Disposition(RECEIVER, 2, None, False, Modified(True)))
    peer.send(Disposition(RECEIVER, 2, 2**31 + 5, True))
    peer.send(Disposition(RECEIVER, 0, 2**31 - 1, True, RELEASED))
    peer.send(Disposition(RECEIVER, 3, 1, True, RELEASED))
    assert peer.events == [
        ("disposition", 0, ACCEPTED, True),
        ("disposition", 1, ACCEPTED, True),
        ("disposition", 2, Modified(True), False),
        ("disposition", 2, RELEASED, True),
        ("disposition", 3, RELEASED, True),
    ]
    assert [each.context for each in peer.states] == [0, 1, 2, 2, 3]
    assert link.unsettled == 0
    sent[0].settle(ACCEPTED)
    assert peer.bodies() == []


@pytest.mark.fact("amqp-connector A91")
def test_what_the_client_has_not_settled_is_settled_by_the_broker() -> None:
    peer = opened()
    link = peer.receiver(0, credit=9)
    delivery = link.send(b"")
    peer.items()
    peer.send(Disposition(RECEIVER, 0, 0, False, ACCEPTED))
    delivery.settle(ACCEPTED)
    assert peer.one(Disposition) == Disposition(SENDER, 0, 0, True, ACCEPTED)
    peer.send(Disposition(RECEIVER, 0, 0, True, ACCEPTED))
    assert len(peer.states) == 1


@pytest.mark.fact("amqp-connector A47")
def test_large_messages_are_split() -> None:
    peer = opened(max_frame_size=600)
    link = peer.receiver(0, credit=9)
    peer.items()
    payload = bytes(range(256)) * 8
    link.send(payload, state=TransactionalState(b"1"))
    link.send(b"x" * 470)
    link.send(b"x" * 1100, settled=True)
    frames = [item for item in peer.items() if isinstance(item, Frame)]
    for frame in frames:
        data = bytearray()
        AmqpFormat(600).encode_into(data, frame)
        assert len(data) <= 600
    parts = [(f.body, f.payload) for f in frames if isinstance(f.body, Transfer)]
    assert b"".join(part for _, part in parts[:4]) == payload
    assert parts[4][1] == b"x" * 470
    assert b"".join(part for _, part in parts[5:]) == b"x" * 1100
    assert [body.more for body, _ in parts] == [True, True, True, False, False, True, False]
    assert [body.delivery_id for body, _ in parts] == [0, None, None, None, 1, 2, None]
    assert parts[0][0].state == TransactionalState(b"1")


def test_small_frames_of_a_client_are_512_bytes() -> None:
    peer = opened(max_frame_size=1)
    assert peer.engine.max_frame_size == 512


def test_transfers_wait_for_the_clients_window() -> None:
    peer = opened(window=2, max_frame_size=512)
    link = peer.receiver(0)
    peer.send(Flow(None, 2, 0, 100, 0, 0, 100))
    peer.items()
    link.send(b"x" * 1200, settled=True)
    link.send(b"later", settled=True)
    assert len(peer.bodies()) == 2
    assert 0 < peer.engine.queued < 1000
    peer.send(Flow(3, 1, 0, 100))
    assert len(peer.bodies()) == 1
    peer.send(Flow(4, 100, 0, 100))
    assert len(peer.bodies()) == 1
    assert peer.engine.queued == 0
    assert link.session.next_outgoing_id == 5


def test_empty_messages_that_wait_for_the_window_count_as_well() -> None:
    peer = opened(window=0)
    link = peer.receiver(0)
    peer.send(Flow(1, 0, 0, 100, 0, 0, 100))
    for _ in range(100):
        link.send(b"", settled=True)
    assert peer.engine.queued > 10_000
    peer.send(Flow(1, 100, 0, 100))
    assert peer.engine.queued == 0


@pytest.mark.parametrize("frame", [Detach(0, True), End()], ids=["detach", "end"])
def test_what_waits_for_the_window_goes_with_its_link(frame: Performative) -> None:
    peer = opened(window=0)
    link = peer.receiver(0)
    peer.send(Flow(1, 0, 0, 100, 0, 0, 100))
    link.send(b"x" * 100)
    assert peer.engine.queued > 100
    peer.send(frame)
    peer.send(Flow(1, 10, 0, 100))
    assert not any(isinstance(body, Transfer) for body in peer.bodies())
    assert peer.engine.queued == 0


@pytest.mark.fact("amqp-connector A86")
def test_drain() -> None:
    peer = opened()
    link = peer.receiver(0, credit=3)
    peer.items()
    link.send(b"")
    peer.flow(0, 3, drain=True, echo=True)
    assert link.drain
    assert link.credit == 2
    peer.items()
    peer.flow(0, 3, drain=True)
    link.finish_drain()
    assert peer.one(Flow) == Flow(0, 16383, 2, 2**31 - 1, 0, 3, 0, None, True)
    assert (link.credit, link.delivery_count) == (0, 3)


def test_a_receivers_flow_is_answered_if_it_wants_that() -> None:
    peer = opened()
    peer.receiver(0)
    peer.items()
    peer.flow(0, 3, echo=True)
    assert peer.one(Flow).link_credit == 3


# violations
VIOLATIONS: list[tuple[Performative, str]] = [
    (Attach("other", 0, SENDER), "amqp:session:handle-in-use"),
    (Flow(0, 1, 1, 1, 5), "amqp:session:unattached-handle"),
    (Detach(5), "amqp:session:unattached-handle"),
    (Transfer(5, 0, b""), "amqp:session:unattached-handle"),
    (Transfer(1, 0, b""), "amqp:session:unattached-handle"),
    (Transfer(0, None, b""), "amqp:invalid-field"),
    (Transfer(0, 0, None), "amqp:invalid-field"),
    (Transfer(0, 0, b"x" * 33), "amqp:invalid-field"),
]


@pytest.mark.fact("amqp-connector A174")
@pytest.mark.parametrize(("body", "condition"), VIOLATIONS, ids=str)
def test_violations_end_the_session(body: Performative, condition: str) -> None:
    peer = opened()
    peer.sender(0).grant(5)
    peer.receiver(1)
    peer.items()
    peer.send(body)
    end = peer.one(End)
    assert end.error is not None
    assert end.error.condition == condition
    assert peer.events[-1] == ("end", 0, end.error)
    peer.send(Attach("late", 9, SENDER))
    peer.transfer(3)
    assert peer.bodies() == []
    assert peer.engine.links == 0
    peer.send(End())
    peer.send(Begin(None, 0, 1, 1))
    peer.one(Begin)


@pytest.mark.fact("amqp-connector A174")
def test_a_message_within_another() -> None:
    peer = opened()
    peer.sender(0).grant(5)
    peer.items()
    peer.transfer(0, more=True)
    peer.transfer(1)
    assert isinstance(peer.one(End).error, Error)


@pytest.mark.fact("amqp-connector A174")
def test_more_transfers_than_the_window() -> None:
    peer = opened(EngineSettings(incoming_window=0))
    peer.sender(0).grant(5)
    peer.items()
    peer.transfer(0)
    end = peer.one(End)
    assert end.error is not None
    assert end.error.condition == "amqp:session:window-violation"


def test_a_transfer_before_the_answer_to_attach() -> None:
    peer = opened(refuses="attach")
    peer.sender(0)
    peer.transfer(0)
    assert isinstance(peer.one(End).error, Error)


def test_a_detached_handle_is_not_used() -> None:
    peer = opened(refuses="attach")
    peer.sender(0)
    peer.send(Detach(0))
    peer.send(Detach(0))
    assert isinstance(peer.one(End).error, Error)


@pytest.mark.fact("amqp-connector A174")
def test_a_large_handle() -> None:
    peer = opened(EngineSettings(handle_max=10))
    peer.send(Attach("l", 11, SENDER))
    close = peer.one(Close)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:framing-error"


def test_numbers_wrap() -> None:
    peer = opened()
    link = peer.receiver(0, credit=5)
    link.session.next_outgoing_id = link.session.unsettled.next_number = 2**32 - 1
    link.delivery_count = 2**32 - 1
    peer.send(Flow(2**32 - 1, 10, 0, 10, 0, 2**32 - 1, 3))
    peer.items()
    link.send(b"")
    link.send(b"")
    assert [t.delivery_id for t in peer.bodies() if isinstance(t, Transfer)] == [2**32 - 1, 0]
    assert (link.session.next_outgoing_id, link.delivery_count) == (1, 1)
    peer.send(Disposition(RECEIVER, 2**32 - 1, 0, True, ACCEPTED))
    assert len(peer.states) == 2
    peer.send(Flow(1, 10, 0, 10, 0, 1, 3))
    assert (link.session.remote_window, link.credit) == (10, 3)


def test_answers_that_come_late_are_ignored() -> None:
    peer = opened(refuses="attach")
    sender, receiver = peer.sender(0), peer.receiver(1)
    peer.send(End())
    peer.items()
    peer.accept(sender)
    peer.accept(receiver)
    sender.grant(1)
    sender.refuse(Error("x"))
    sender.detach()
    receiver.finish_drain()
    assert peer.items() == []


def test_deliveries_of_an_ended_link_are_not_settled() -> None:
    peer = opened()
    peer.sender(0).grant(1)
    link = peer.receiver(1, credit=3)
    peer.transfer(0)
    sent = link.send(b"")
    peer.send(Detach(0, True))
    peer.send(Detach(1, True))
    peer.items()
    peer.deliveries[0].settle(ACCEPTED)
    sent.settle(ACCEPTED)
    sent.update(ACCEPTED)
    assert peer.items() == []


def test_properties_of_links_and_sessions_are_not_kept() -> None:
    peer = opened()
    tracemalloc.start()
    try:
        for number in range(1, 9):
            terms = {Symbol(f"{number}.{each}"): "x" * 100 for each in range(5000)}
            peer.send(Begin(None, 0, 1, 1, properties=terms), channel=number)
            attach = Attach("n", number, SENDER, target=Target(), properties=terms)
            peer.send(attach, channel=number)
            del terms, attach
            peer.items()
        assert tracemalloc.get_traced_memory()[0] < 3_000_000
    finally:
        tracemalloc.stop()


# runs of messages
def frames(*transfers: Transfer, channel: int = 0) -> deque[Item]:
    return deque(Frame(channel, transfer, b"m") for transfer in transfers)


def numbered(number: int, **fields: Any) -> Transfer:
    return Transfer(0, number, b"%d" % number, 0, **fields)


def test_successive_messages_of_a_link_are_handled_together() -> None:
    peer = opened()
    link = peer.sender()
    link.grant(5)
    items = frames(numbered(0), numbered(1, settled=True), numbered(2))
    assert peer.engine.receive_run(items) == 3
    assert [each.id for each in peer.deliveries] == [0, 1, 2]
    assert [each.is_unsettled for each in peer.deliveries] == [True, False, True]
    assert (link.credit, link.delivery_count, link.unsettled) == (2, 3, 2)
    assert link.session.next_incoming_id == 3
    assert not items


@pytest.mark.parametrize(
    ("last", "channel"),
    [
        (Transfer(1, 2, b"2"), 0),
        (numbered(2), 1),
        (numbered(2, more=True), 0),
        (numbered(2, aborted=True), 0),
        (numbered(2, state=TransactionalState(b"1")), 0),
        (Transfer(0, None, b"2"), 0),
        (Transfer(0, 2, None), 0),
        (Transfer(0, 2, bytes(33)), 0),
    ],
    ids=["handle", "channel", "more", "aborted", "state", "id", "tag", "long tag"],
)
def test_a_run_ends_before_what_is_unusual(last: Transfer, channel: int) -> None:
    peer = opened()
    peer.sender().grant(5)
    items = frames(numbered(0), numbered(1)) + frames(last, channel=channel)
    assert peer.engine.receive_run(items) == 2
    assert len(items) == 1
    assert peer.engine.receive_run(items) == 0


def test_a_run_ends_with_the_credit_and_the_window() -> None:
    peer = opened(EngineSettings(incoming_window=7))
    link = peer.sender()
    link.grant(2)
    items = frames(*map(numbered, range(9)))
    assert peer.engine.receive_run(items) == 2
    assert peer.engine.receive_run(items) == 0
    link.grant(9)
    assert peer.engine.receive_run(items) == 3  # the next one opens the window again
    assert peer.engine.receive_run(items) == 0
    peer.engine.receive(items.popleft())
    assert link.session.incoming_window == 7
    assert peer.engine.receive_run(items) == 3


def test_a_run_is_no_way_around_the_maximum_size() -> None:
    peer = opened(EngineSettings(max_message_size=1))
    peer.sender().grant(5)
    items = frames(numbered(0))
    items.append(Frame(0, numbered(1), b"mm"))
    assert peer.engine.receive_run(items) == 1
    peer.engine.receive(items.popleft())
    assert peer.events[-1][:2] == ("detach", "s")


def test_what_is_accepted_together_is_told_as_ranges() -> None:
    peer = opened()
    link = peer.sender()
    link.grant(9)
    peer.items()
    peer.engine.receive_run(
        frames(*(numbered(each, settled=each == 3) for each in (1, 2, 3, 4, 6)))
    )
    link.settle_all(peer.deliveries, ACCEPTED)
    peer.engine.flush()
    assert peer.bodies() == [
        Disposition(RECEIVER, first, last, settled=True, state=ACCEPTED)
        for first, last in ((1, 2), (4, 4), (6, 6))
    ]
    assert link.unsettled == 0


@pytest.mark.parametrize("settled", [False, True])
def test_a_run_is_sent_as_its_messages_are(settled: bool) -> None:
    def sent(*, together: bool) -> tuple[list[object], tuple[int, ...]]:
        peer = opened()
        link = peer.receiver(0, credit=400)
        link.send(b"first")
        peer.items()
        payloads = [b"%d" % number for number in range(300)]
        contexts = [] if settled else [f"c{number}" for number in range(300)]
        if together:
            link.send_run(payloads, contexts, overhead=7)
        else:
            for number, payload in enumerate(payloads):
                context = None if settled else contexts[number]
                size = 0 if settled else len(payload) + 7
                link.send(payload, settled=settled, context=context, size=size)
        session = link.session
        items = [
            (each.channel, each.body, each.payload)
            for each in peer.items()
            if isinstance(each, Frame)
        ]
        unsettled = [
            (each.tag, each.context, each.size) for each in session.unsettled.by_id.values()
        ]
        unsettled.append((b"", session.engine.kept, 0))
        counts = link.credit, link.delivery_count, link.unsettled, session.remote_window
        return [items, unsettled, session.unsettled.numbers], (*counts, session.next_outgoing_id)

    assert sent(together=True) == sent(together=False)


def test_a_run_needs_credit_and_window() -> None:
    peer = opened()
    link = peer.receiver(0)
    peer.send(Flow(1, 2, 0, 1000, 0, 0, 5))
    assert link.run_room == 2
    with pytest.raises(LocalProtocolError, match="no credit"):
        link.send_run([b"m"] * 3)
    link.send_run([b"m"] * 2)
    link.send(b"waits")
    assert link.run_room == 0
    peer.flow(0, 9, delivery_count=3)
    assert link.run_room == 9


# names
@pytest.mark.fact("amqp-connector A175")
def test_a_long_name_of_a_link_is_refused() -> None:
    peer = opened(EngineSettings(max_name=10))
    peer.send(Attach("x" * 11, 0, SENDER, source=Source(), target=Target("q")))
    answer, detach = peer.bodies()
    assert isinstance(answer, Attach)
    assert (answer.name, answer.target) == ("x" * 11, None)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert detach.error.description == "The name of a link has 11 characters, more than 10"
    assert peer.events == []


@pytest.mark.fact("amqp-connector A175")
def test_the_names_of_all_links_are_limited() -> None:
    peer = opened(EngineSettings(max_names=10))
    peer.sender(0, "x" * 6)
    peer.items()
    peer.send(Attach("y" * 6, 1, SENDER, source=Source(), target=Target("q")))
    _answer, detach = peer.bodies()
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:resource-limit-exceeded"
    peer.send(Detach(1, True))
    peer.send(Detach(0, True))
    peer.sender(2, "y" * 6)
    assert peer.links[-1].is_attached
    assert peer.engine.names == 6
    peer.send(End())
    assert peer.engine.names == 0
