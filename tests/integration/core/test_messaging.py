"""JmsMessagingTemplate and JmsClient on the bundled broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.support.converter import SimpleMessageConverter
from pyjms.support.messaging import GenericMessage, JmsHeaders, MessagingMessageConverter
from pyjms.template.messaging import JmsClient, JmsMessagingTemplate
from pyjms.template.template import JmsTemplate


@dataclass
class Order:
    id: int


class Marking(SimpleMessageConverter):
    """Converts texts only, and shows that it did."""

    def to_message(self, payload: object, session: Session) -> Message:
        if not isinstance(payload, str):
            raise MessageConversionException("only texts", target=None)
        return super().to_message(f"<{payload}>", session)


@pytest.fixture
def messaging(template: JmsTemplate) -> JmsMessagingTemplate:
    return JmsMessagingTemplate(template)


async def answer_one(template: JmsTemplate, name: str) -> None:
    request = await template.receive(name, timeout=5)
    assert isinstance(request, TextMessage)
    await template.convert_and_send(
        request.reply_to,
        f"re:{request.text}",
        correlation_id=request.message_id,
        properties={"answered": True},
    )


@pytest.mark.fact("spring-jms 4.2.1")
async def test_payload_and_headers_there_and_back(
    template: JmsTemplate, messaging: JmsMessagingTemplate
) -> None:
    headers = {"tenant": "a", JmsHeaders.CORRELATION_ID: 7, JmsHeaders.PRIORITY: 9, "odd": object()}
    await messaging.send("q", GenericMessage("x", headers))
    sent = await template.receive("q")
    assert isinstance(sent, TextMessage)
    assert (sent.text, sent.correlation_id, sent.priority) == ("x", "7", 4)
    assert set(sent.properties) == {"tenant", "timestamp"}
    await messaging.convert_and_send("q", Order(3), {"tenant": "b"})
    received = await messaging.receive("q")
    assert received is not None
    assert received.payload == {"id": 3}
    assert received.headers["tenant"] == "b"
    assert received.headers[JmsHeaders.DESTINATION] == Queue("q")
    assert await messaging.receive("q", timeout=0) is None


@pytest.mark.fact("spring-jms 4.2.1")
async def test_which_converter_applies(template: JmsTemplate) -> None:
    template.message_converter = Marking()
    await JmsMessagingTemplate(template).convert_and_send("q", "a")
    await JmsMessagingTemplate(
        template, message_converter=SimpleMessageConverter()
    ).convert_and_send("q", "b")
    whole = MessagingMessageConverter(SimpleMessageConverter())
    await JmsMessagingTemplate(template, converter=whole).convert_and_send("q", "c")
    assert [await template.receive_and_convert("q") for _ in range(3)] == ["<a>", "b", "c"]
    with pytest.raises(ValueError, match="either"):
        JmsMessagingTemplate(template, converter=whole, message_converter=Marking())


@pytest.mark.fact("spring-jms 4.2.2")
async def test_the_default_destination_is_its_own(template: JmsTemplate) -> None:
    template.default_destination_name = "of.the.template"
    messaging = JmsMessagingTemplate(template)
    calls = [
        messaging.convert_and_send(None, "x"),
        messaging.receive(),
        messaging.receive_and_convert(),
        messaging.send_and_receive(None, GenericMessage("x")),
    ]
    for call in calls:
        with pytest.raises(IllegalStateException, match="No 'default_destination'"):
            await call
    for default in ("own", Queue("own")):
        messaging.default_destination = default
        await messaging.convert_and_send(None, "x")
        assert await messaging.receive_and_convert() == "x"


@pytest.mark.fact("spring-jms 4.2.3")
async def test_receive_and_convert(messaging: JmsMessagingTemplate) -> None:
    await messaging.convert_and_send("q", Order(3))
    await messaging.convert_and_send("q", "no order", {"n": 2})
    assert await messaging.receive_and_convert("q", Order) == Order(3)
    with pytest.raises(MessageConversionException):
        await messaging.receive_and_convert("q", Order, selector="n = 2")
    assert await messaging.receive_and_convert("q", Order, timeout=0) is None


async def test_a_message_without_body_is_refused(
    template: JmsTemplate, messaging: JmsMessagingTemplate
) -> None:
    await template.send("q", lambda session: session.create_text_message())
    with pytest.raises(MessageConversionException, match="no body"):
        await messaging.receive("q")
    with pytest.raises(ValueError, match="only GenericMessage"):
        MessagingMessageConverter().to_message("x", None)  # type: ignore[arg-type]


async def test_a_payload_that_is_a_message_keeps_its_headers(template: JmsTemplate) -> None:
    class Wrapping(SimpleMessageConverter):
        def from_message(self, message: Message, target: Any = None) -> Any:
            return GenericMessage(super().from_message(message, target), {"a": "own"})

    messaging = JmsMessagingTemplate(template, message_converter=Wrapping())
    await messaging.convert_and_send("q", "x", {"a": "mapped", "b": "gap"})
    received = await messaging.receive("q")
    assert received is not None
    assert (received.payload, received.headers["a"], received.headers["b"]) == ("x", "own", "gap")


async def test_post_processors(messaging: JmsMessagingTemplate) -> None:
    async def later(message: GenericMessage[Any]) -> GenericMessage[Any]:
        return GenericMessage(message.payload + "!", {**message.headers, "seen": True})

    await messaging.convert_and_send("q", "x", {"a": 1}, post_processor=later)
    received = await messaging.receive("q")
    assert received is not None
    assert (received.payload, received.headers["a"], received.headers["seen"]) == ("x!", 1, True)


async def test_requests(template: JmsTemplate, messaging: JmsMessagingTemplate) -> None:
    client = JmsClient(template)
    found: list[Any] = []

    async def request() -> None:
        reply = await messaging.send_and_receive("r", GenericMessage("a"), timeout=5)
        assert reply is not None
        found.append((reply.payload, reply.headers["answered"]))
        found.append(await messaging.convert_send_and_receive("r", "b", {"h": 1}, timeout=5))
        operations = client.destination("r").with_receive_timeout(5)
        reply = await operations.send_and_receive("c")
        assert reply is not None
        found.append(reply.payload)
        found.append(await operations.send_and_receive("d", type=str))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(request)
        for _ in range(4):
            await answer_one(template, "r")
    assert found == [("re:a", True), "re:b", "re:c", "re:d"]
    assert await messaging.convert_send_and_receive("r", "x", type=str, timeout=0.01) is None


@pytest.mark.fact("spring-jms 4.2.5")
async def test_settings_of_a_client_are_its_operations_own(template: JmsTemplate) -> None:
    plain = JmsClient(template).destination("q")
    changed = (
        plain.with_priority(9)
        .with_time_to_live(60)
        .with_delivery_persistent(False)
        .with_receive_timeout(0)
    )
    await changed.send("x", {"a": 1})
    await plain.send(GenericMessage("y", {"a": 1}), {"b": 2})
    first, second = await template.receive("q"), await template.receive("q")
    assert first is not None
    assert second is not None
    assert (first.priority, first.delivery_mode) == (9, DeliveryMode.NON_PERSISTENT)
    assert first.expiration - first.timestamp == 60_000
    assert (second.priority, second.delivery_mode) == (4, DeliveryMode.PERSISTENT)
    assert (second.properties["a"], second.properties["b"]) == (1, 2)
    assert await changed.receive() is None
    assert not template.explicit_qos_enabled
    for wrong in (plain.with_time_to_live, plain.with_delivery_delay):
        with pytest.raises(ValueError, match="a number of seconds"):
            wrong(-1)


@pytest.mark.fact("spring-jms 4.2.5")
async def test_what_a_client_receives(template: JmsTemplate) -> None:
    orders = JmsClient(template).destination(Queue("q"))
    for number in range(3):
        await orders.send(Order(number), {"n": number})
    assert await orders.receive(Order, selector="n = 1") == Order(1)
    received = await orders.receive()
    assert received is not None
    assert (received.payload, received.headers["n"]) == ({"id": 0}, 0)
    assert await orders.receive(Order) == Order(2)


@pytest.mark.fact("spring-jms 4.2.5")
async def test_converters_and_post_processors_of_a_client(template: JmsTemplate) -> None:
    def add(text: str) -> Any:
        def process(message: GenericMessage[Any]) -> GenericMessage[Any]:
            headers = message.headers
            return GenericMessage(
                message.payload, {**headers, "way": headers.get("way", "") + text}
            )

        return process

    client = JmsClient(
        template,
        message_converters=[Marking(), template.message_converter],
        post_processors=[add("a"), add("b")],
    )
    queue = client.destination("q")
    await queue.send("x")
    await queue.send({"n": 1})
    received = await queue.receive()
    assert received is not None
    assert (received.payload, received.headers["way"]) == ("<x>", "ab")
    assert await queue.receive(dict) == {"n": 1}


def test_a_message_shows_no_payload_in_logs() -> None:
    message = GenericMessage("secret", {"a": 1, "id": "i", "timestamp": 0})
    assert repr(message) == "GenericMessage(str, headers=['a', 'id', 'timestamp'])"
    assert message == GenericMessage("secret", {"a": 1, "id": "i", "timestamp": 0})
    assert message != GenericMessage("secret")
    assert message != "secret"
