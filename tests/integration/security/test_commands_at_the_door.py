"""Every command of OpenWire and frame of STOMP: what nobody, and another user, gets from them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ControlCommand,
    DataArrayResponse,
    DataResponse,
    DestinationInfo,
    ExceptionResponse,
    FlushCommand,
    IntegerResponse,
    KeepAliveInfo,
    LocalTransactionId,
    MessageAck,
    MessageId,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    ShutdownInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.connector.openwire.command_handlers import HANDLERS
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.stomp.client import StartStomp

USERS = simple(user("alice", "users"), user("mallory", "guests"))
RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            {"destination": name, "read": group, "write": group, "admin": group}
            for name, group in (
                *(("pay.>", "users"), ("topic://pay.>", "users")),
                *(("pub.>", "*"), ("topic://pub.>", "*"), ("topic://ActiveMQ.Advisory.>", "*")),
            )
        ]
    }
)
PAY, NEWS = Queue("pay.q"), Topic("pay.t")
HERS = "ID:alice:1"
CONNECTION, SESSION = ConnectionId(HERS), SessionId(HERS, 1)
PRODUCER, CONSUMER = ProducerId(HERS, 50, 1), ConsumerId(HERS, 1, 51)
TEMPORARY = TemporaryQueue(f"{HERS}:1")
LOCAL, XA = LocalTransactionId(1, CONNECTION), XATransactionId(1, b"g", b"b")


def _message(kind: type[ActiveMQMessage], **fields: object) -> ActiveMQMessage:
    message = kind()
    message.producer_id, message.destination = PRODUCER, PAY
    message.message_id, message.persistent = MessageId(None, PRODUCER, 1), True
    for name, value in fields.items():
        setattr(message, name, value)
    return message


MESSAGES = (
    *(ActiveMQMessage, ActiveMQTextMessage, ActiveMQBytesMessage, ActiveMQMapMessage),
    *(ActiveMQObjectMessage, ActiveMQStreamMessage, ActiveMQBlobMessage),
)
COMMANDS: dict[str, list[Command]] = {
    "send": [_message(kind) for kind in MESSAGES],
    "send in a transaction": [_message(ActiveMQMessage, transaction_id=xid) for xid in (LOCAL, XA)],
    "acknowledge": [
        MessageAck(PAY, xid, CONSUMER, message_count=1, last_message_id=MessageId(None, PRODUCER, 1))
        for xid in (None, LOCAL, XA)
    ],
    "pull": [MessagePull(CONSUMER, PAY)],
    "control a consumer": [ConsumerControl(PAY, close=True, consumer_id=CONSUMER)],
    "control a connection": [ConnectionControl(close=True), ControlCommand("shutdown")],
    "open a connection": [ConnectionInfo(CONNECTION, "alice", "wrong", "alice")],
    "open a session": [SessionInfo(SESSION)],
    "produce": [ProducerInfo(PRODUCER, PAY)],
    "consume": [
        ConsumerInfo(CONSUMER, destination=to, prefetch_size=10) for to in (PAY, NEWS, TEMPORARY)
    ],
    "create": [DestinationInfo(CONNECTION, to, 0) for to in (Queue("pay.new"), TEMPORARY)],
    "remove a destination": [DestinationInfo(CONNECTION, to, 1) for to in (PAY, NEWS, TEMPORARY)],
    "unsubscribe": [RemoveSubscriptionInfo(CONNECTION, "s", client_id="payroll")],
    "close": [RemoveInfo(each) for each in (CONSUMER, PRODUCER, SESSION, CONNECTION)],
    "transactions": [TransactionInfo(CONNECTION, xid, kind) for kind in TransactionType for xid in (LOCAL, XA)],
    "flush": [FlushCommand(), KeepAliveInfo(), ConnectionErrorCommand(None, CONNECTION)],
    "responses": [kind() for kind in (Response, DataResponse, DataArrayResponse, ExceptionResponse, IntegerResponse)],
    "bridges": [
        BrokerInfo(
            broker_name="x",
            network_connection=True,
            network_properties="syncDurableSubs=true\ndynamicOnly=false\n",
        ),
        BrokerSubscriptionInfo(),
    ],
    "shut down": [ShutdownInfo()],
}  # fmt: skip
"""Every command that the broker handles, about what alice has."""


def test_all_commands_are_here() -> None:
    assert {each.TYPE for commands in COMMANDS.values() for each in commands} == set(HANDLERS)


@asynccontextmanager
async def alices(broker: SecuredBroker) -> AsyncIterator[RawClient]:
    """What alice has; at the end it must all be there still."""
    alice = await broker.client("alice", name=HERS, client_id="payroll")
    await alice.destination(TEMPORARY)
    await alice.request(ConsumerInfo(CONSUMER, destination=PAY, prefetch_size=10))
    await alice.request(ProducerInfo(PRODUCER, PAY))
    await alice.remove(await alice.consumer(NEWS, subscription_name="s"))
    for xid in (LOCAL, XA):
        await alice.transaction(TransactionType.BEGIN, xid)
        await alice.request(_message(ActiveMQTextMessage, transaction_id=xid, message_id=MessageId(None, PRODUCER, 100 + xid.TYPE)))  # fmt: skip
    await alice.transaction(TransactionType.PREPARE, XA)
    yield alice
    await alice.send(TEMPORARY, "still there")
    await alice.send(NEWS, "for the durable subscription")
    await alice.consumer(NEWS, subscription_name="s")
    await alice.message()
    await alice.transaction(TransactionType.COMMIT_ONE_PHASE, LOCAL)
    await alice.transaction(TransactionType.COMMIT_TWO_PHASE, XA)
    assert {(await alice.message()).destination for _ in range(2)} == {PAY}
    await alice.nothing_dispatched()


TOLD = (BrokerInfo, KeepAliveInfo, ConnectionErrorCommand, ConnectionControl)
"""What anybody may get from the broker without having asked."""


async def attempt(client: RawClient, commands: list[Command]) -> list[Response]:
    """Send commands that require a response; return those that have a value."""
    told: list[Response] = []
    for command in commands:
        if isinstance(command, KeepAliveInfo):  # which is its own answer
            client.send_command(command)
            continue
        try:
            answer = await client.request(command)
        except JMSException:
            continue
        if isinstance(answer, DataArrayResponse) and answer.data:
            told.append(answer)
    return told


@pytest.mark.fact("activemq-edges SE31")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "shut down"])
async def test_a_peer_without_a_login_gets_nothing(secured: StartSecured, name: str) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAY, NEWS]) as broker, alices(broker):
        nobody = RawClient(create_transport(broker.broker.url))
        broker.clients.append(nobody)
        await nobody.transport.start()
        assert await attempt(nobody, COMMANDS[name]) == []
        assert [each for each in nobody.commands if not isinstance(each, TOLD)] == []


@pytest.mark.fact("activemq-edges SE32")
@pytest.mark.fact("activemq-edges SE34")
@pytest.mark.parametrize("as_bridge", [False, True], ids=["another user", "as a bridge"])
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "shut down"])
async def test_another_user_changes_nothing_of_alice(
    secured: StartSecured, name: str, *, as_bridge: bool
) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAY, NEWS]) as broker, alices(broker):
        mallory = await broker.client("mallory")
        if as_bridge:
            mallory.send_command(BrokerInfo(broker_name="x", network_connection=True))
        assert await attempt(mallory, COMMANDS[name]) == []
        told = [each for each in mallory.commands if isinstance(each, BrokerSubscriptionInfo)]
        assert [info for each in told for info in each.subscription_infos or ()] == []


FRAMES = {
    "SEND": {"destination": "/queue/pub.q"},
    "SUBSCRIBE": {"destination": "/queue/pub.q", "id": "1"},
    "UNSUBSCRIBE": {"id": "1", "activemq.subscriptionName": "s"},
    "ACK": {"id": "1"},
    "NACK": {"id": "1"},
    "BEGIN": {"transaction": "1"},
    "COMMIT": {"transaction": "1"},
    "ABORT": {"transaction": "1"},
}
"""DISCONNECT is ignored before a login, as in ActiveMQ."""


@pytest.mark.parametrize("command", FRAMES)
async def test_a_frame_before_the_login_is_an_error(stomp_broker: StartStomp, command: str) -> None:
    async with stomp_broker(plugins=[USERS, RIGHTS]) as broker:
        client = await broker.open()
        await client.send(command, {**FRAMES[command], "receipt": "r"})
        assert (await client.receive()).command == "ERROR"
        assert await client.closed()
