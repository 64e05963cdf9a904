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
from pyjms.wire.openwire.schema import MESSAGES
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.connector.vm.connector import VmConnector


class Turning(MockTransport[Command]):
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
    """A connection that records the commands that it handles."""

    def __init__(self, connector: VmConnector, transport: MockTransport[Command]) -> None:
        self.handled: list[Command] = []
        kinds = (*MESSAGES, MessageAck.TYPE, RemoveInfo.TYPE)
        self.connection = BrokerConnection(connector, transport, dict.fromkeys(kinds, self.handle))

    def handle(self, _connection: BrokerConnection, command: Command) -> Completion:
        self.handled.append(command)
        return COMPLETED

    def come(self, *commands: Command) -> None:
        for command in commands:
            self.connection.on_command(command)


@pytest.fixture
def transport() -> Turning:
    return Turning()


@pytest.fixture
def rig(connector: VmConnector, transport: Turning) -> Rig:
    return Rig(connector, transport)


async def test_messages_of_the_same_chunk_come_first(rig: Rig, transport: Turning) -> None:
    first, second, message = MessageAck(), MessageAck(), ActiveMQTextMessage()
    rig.come(first, second, message)
    assert rig.handled == [message]
    transport.end_turn()
    assert [id(c) for c in rig.handled] == [id(message), id(first), id(second)]


async def test_nothing_else_overtakes_an_acknowledgement(rig: Rig, transport: Turning) -> None:
    ack, remove = MessageAck(), RemoveInfo()
    rig.come(ack, remove)
    assert rig.handled == [ack, remove]
    transport.end_turn()
    assert len(rig.handled) == 2


@pytest.mark.parametrize("kind", ["in a transaction", "answered"])
async def test_an_acknowledgement_that_others_wait_for_is_not_deferred(
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


async def test_without_a_turn_nothing_is_deferred(connector: VmConnector) -> None:
    rig = Rig(connector, MockTransport())
    ack, message = MessageAck(), ActiveMQTextMessage()
    rig.come(ack, message)
    assert rig.handled == [ack, message]
