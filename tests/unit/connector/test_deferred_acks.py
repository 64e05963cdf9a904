from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.transport.mock import MockTransport
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    Command,
    LocalTransactionId,
    MessageAck,
    RemoveInfo,
)
from pyjms_broker.connector.openwire.connection import DeferredAcks


class Turning(MockTransport):
    """A transport with a turn, as a socket's is."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Callable[[], object]] = []

    def defer(self, function: Callable[[], object]) -> bool:
        self.late.append(function)
        return True

    def end_turn(self) -> None:
        for function in self.late:
            function()
        self.late.clear()


class Rig:
    def __init__(self, transport: MockTransport) -> None:
        self.transport = transport
        self.handled: list[Command] = []
        self.acks = DeferredAcks(transport, self.handled.append)

    def come(self, *commands: Command) -> None:
        for command in commands:
            if not self.acks.defer(command):
                self.handled.append(command)


@pytest.fixture
def transport() -> Turning:
    return Turning()


@pytest.fixture
def rig(transport: Turning) -> Rig:
    return Rig(transport)


def test_messages_of_the_same_chunk_come_first(rig: Rig, transport: Turning) -> None:
    first, second, message = MessageAck(), MessageAck(), ActiveMQTextMessage()
    rig.come(first, second, message)
    assert rig.handled == [message]
    transport.end_turn()
    assert [id(c) for c in rig.handled] == [id(message), id(first), id(second)]


def test_nothing_else_overtakes_an_acknowledgement(rig: Rig, transport: Turning) -> None:
    ack, remove = MessageAck(), RemoveInfo()
    rig.come(ack, remove)
    assert rig.handled == [ack, remove]
    transport.end_turn()
    assert len(rig.handled) == 2


@pytest.mark.parametrize("kind", ["in a transaction", "answered"])
def test_an_acknowledgement_that_others_wait_for_is_not_deferred(
    rig: Rig, transport: Turning, kind: str
) -> None:
    plain, ack, message = MessageAck(), MessageAck(), ActiveMQTextMessage()
    if kind == "answered":
        ack.response_required = True
    else:
        ack.transaction_id = LocalTransactionId(1)
    rig.come(plain, ack, message)
    assert [id(c) for c in rig.handled] == [id(plain), id(ack), id(message)]
    transport.end_turn()
    assert len(rig.handled) == 3


def test_without_a_turn_nothing_is_deferred() -> None:
    rig = Rig(MockTransport())
    ack, message = MessageAck(), ActiveMQTextMessage()
    rig.come(ack, message)
    assert rig.handled == [ack, message]
