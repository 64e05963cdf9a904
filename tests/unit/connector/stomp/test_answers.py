"""The messages that wait for an answer to a frame, when the client has gone."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import ConnectionFailedException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConsumerId,
    ConsumerInfo,
    MessageDispatch,
    ProducerId,
)
from pyjms_broker.connector.stomp.answers import Answers, Request
from pyjms_broker.connector.stomp.session import Subscription

OWN = ProducerId("ID:own", 1, 1)
OTHER = ProducerId("ID:other", 1, 1)


def test_a_client_that_leaves_within_the_turn_is_no_error() -> None:
    later: list[Callable[[], object]] = []

    def deliver(subscription: Subscription, dispatch: MessageDispatch) -> None:
        raise ConnectionFailedException(f"{subscription.name} has no client for {dispatch}")

    answers = Answers(OWN, deliver, later.append)
    consumer_id = ConsumerId("ID:own", 1, 1)
    subscription = Subscription(ConsumerInfo(consumer_id), "s", "/queue/q", "auto")
    held: list[bool] = []

    def to_broker(_: object) -> None:
        message = ActiveMQTextMessage(OTHER, Queue("q"))
        held.append(answers.hold(subscription, MessageDispatch(consumer_id, message=message)))

    send = ActiveMQTextMessage(OWN, Queue("q"))
    send.command_id = 1
    answers.expect(send, Request("r", None, None), to_broker)
    assert held == [True]
    (end_of_turn,) = later
    end_of_turn()
    assert answers.take(1) == Request("r", None, None)
