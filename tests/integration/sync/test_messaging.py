"""JmsMessagingTemplate and JmsClient, blocking."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    GenericMessage,
    IllegalStateException,
    JmsClient,
    JmsMessagingTemplate,
    JmsTemplate,
    Queue,
)


@pytest.fixture
def template() -> Iterator[JmsTemplate]:
    url = "vm://messaging-blocking?broker.persistent=false&broker.schedulerSupport=true"
    factory = CachingConnectionFactory(ConnectionFactory(url))
    yield JmsTemplate(factory, receive_timeout=5.0)
    factory.destroy()


def answer_two(template: JmsTemplate) -> None:
    for _ in range(2):
        request: Any = template.receive("requests")
        template.convert_and_send(
            request.reply_to, f"re:{request.text}", correlation_id=request.message_id
        )


def test_messages_and_requests(template: JmsTemplate) -> None:
    messaging = JmsMessagingTemplate(template)
    assert cast("object", messaging.jms_template) is template.core
    messaging.send("q", GenericMessage("x", {"a": 1}))
    received = messaging.receive("q")
    assert received is not None
    assert (received.payload, received.headers["a"]) == ("x", 1)
    with pytest.raises(IllegalStateException, match="default_destination"):
        messaging.convert_and_send(None, "y")
    messaging.default_destination = Queue("q")
    messaging.convert_and_send(None, {"n": 1})
    assert messaging.receive_and_convert(type=dict) == {"n": 1}
    answering = threading.Thread(target=answer_two, args=(template,))
    answering.start()
    reply = messaging.send_and_receive("requests", GenericMessage("a"))
    assert reply is not None
    assert reply.payload == "re:a"
    assert messaging.convert_send_and_receive("requests", "b", type=str) == "re:b"
    answering.join()


def test_a_client(template: JmsTemplate) -> None:
    operations = JmsClient(template).destination("q")
    operations.with_priority(8).with_delivery_persistent(False).with_time_to_live(60).send("x")
    received = operations.receive()
    assert received is not None
    assert (received.payload, received.headers["jms_priority"]) == ("x", 8)
    operations.with_delivery_delay(0.05).send("later", {"a": 1})
    assert operations.receive(str) == "later"
    assert operations.with_receive_timeout(0).receive() is None
    assert operations.with_receive_timeout(0).send_and_receive("nobody answers") is None
