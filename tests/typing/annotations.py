"""What type checkers make of the public names: `make check` has mypy read this file as a user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import pyjms.aio
from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    JMSException,
    JmsTemplate,
    Message,
    MessageConsumer,
    Queue,
    Session,
    Topic,
    jms_listener,
    on_startup,
    send_to,
)


@jms_listener("in", concurrency="2-8")
@send_to("out")
async def handler(text: str, count: int = 1) -> bytes:
    return text.encode() * count


@jms_listener("in")
@jms_listener("also", id="also")
def threaded(text: str) -> int:
    return len(text)


@jms_listener(Topic("news"))
@send_to(Queue("out"))
def of_destinations(text: str) -> int:
    return len(text)


@on_startup
def hook() -> int:
    return 1


@on_startup()
async def hook_with_brackets() -> int:
    return 1


class Handlers:
    @jms_listener("in")
    async def method(self, text: str) -> str:
        return text


@send_to("out")
class Marked:
    number = 3


def takes_function(function: Callable[[str], int]) -> None: ...


async def marks_keep_types() -> None:
    assert_type(await handler("x", count=2), bytes)
    assert_type(threaded("x"), int)
    assert_type(await Handlers().method("x"), str)
    assert_type(Marked().number, int)
    takes_function(threaded)
    takes_function(of_destinations)
    assert_type(hook(), int)
    assert_type(await hook_with_brackets(), int)


class Callback:
    def on_success(self) -> None: ...
    def on_exception(self, error: JMSException, /) -> None: ...


def the_blocking_face_keeps_signatures() -> None:
    factory = ConnectionFactory("tcp://localhost:61616", user_name="u", password="p")
    connection = factory.create_connection()
    assert_type(connection, Connection)
    session = connection.create_session(transacted=True)
    assert_type(session, Session)
    consumer = session.create_consumer(Queue("q"), selector="a = 1")
    assert_type(consumer, MessageConsumer)
    assert_type(consumer.receive(timeout=1.0), Message | None)
    session.create_producer(None).send(
        session.create_text_message("x"), destination=Queue("q"), time_to_live=2.0
    )
    session.create_producer(None).send(Queue("q"), session.create_text_message("x"), priority=7)
    session.create_producer(None).send(Queue("q"), session.create_message(), Callback())
    session.create_producer(Queue("q")).send(session.create_message(), callback=Callback())
    session.create_producer(Queue("q")).send(session.create_message(), callback=print)  # type: ignore[call-overload]
    session.create_producer(None).send("q", session.create_message())  # type: ignore[call-overload]
    with connection, session as same:
        assert_type(same, Session)
    template = JmsTemplate(factory, receive_timeout=1.0)
    assert_type(template.receive("q"), Message | None)
    template.convert_and_send("q", {"a": 1}, post_processor=lambda message: message)
    assert_type(template.execute(lambda s: s.transacted), bool)
    template.convert_and_send(
        "q",
        {"a": 1},
        properties={"a": 1},
        correlation_id="c",
        reply_to=Queue("r"),
        priority=9,
        time_to_live=1.5,
        delay=2.0,
        delivery_mode=DeliveryMode.NON_PERSISTENT,
        group="g",
    )
    template.send("q", lambda s: s.create_text_message("x"), correlation_id="c", reply_to="r")
    assert_type(template.receive("q", timeout=0.5), Message | None)
    assert_type(template.receive(timeout=None), Message | None)
    assert_type(template.receive_and_convert("q", int, timeout=1.0), int | None)
    assert_type(template.receive_and_convert("q", type=list[int]), list[int] | None)
    assert_type(template.receive_and_convert("q"), Any)
    assert_type(template.receive_selected_and_convert("q", "a = 1", str), str | None)
    assert_type(template.request("q", {"a": 1}, type=int, timeout=1.0, priority=9), int | None)
    assert_type(template.convert_send_and_receive("q", 1, correlation_id="c"), Any)


def wrong_calls_are_errors(
    factory: ConnectionFactory, template: JmsTemplate, consumer: MessageConsumer
) -> None:
    JmsTemplate(factory, recieve_timeout=5.0)  # type: ignore[call-arg]
    JmsTemplate(factory, receive_timeout="5s")  # type: ignore[arg-type]
    template.send("q", "text")  # type: ignore[arg-type]
    template.convert_and_send("q")  # type: ignore[call-arg]
    template.convert_and_send("q", 1, prosess=None)  # type: ignore[call-arg]
    template.convert_and_send("q", 1, priority="high")  # type: ignore[arg-type]
    template.request("q", 1, reply_to="r")  # type: ignore[call-overload]
    template.receive("q", timeout="1")  # type: ignore[arg-type]
    consumer.receive("soon")  # type: ignore[arg-type]
    jms_listener(destination="in", idd="x")  # type: ignore[call-arg]
    threaded(1)  # type: ignore[arg-type]


async def the_same_names_as_coroutines(factory: pyjms.aio.ConnectionFactory) -> None:
    async with await factory.create_connection() as connection:
        session = await connection.create_session(transacted=True)
        consumer = await session.create_consumer(Queue("q"))
        assert_type(await consumer.receive(0), Message | None)
        async for message in consumer:
            assert_type(message, Message)
    template = pyjms.aio.JmsTemplate(factory, priority=3)
    assert_type(await template.receive("q", timeout=1.0), Message | None)
    await template.convert_and_send("q", 1, properties={"a": 1}, delay=1.0, group="g", reply_to="r")
    assert_type(await template.receive_and_convert("q", int), int | None)
    assert_type(await template.receive_selected_and_convert("q", "a = 1", int), int | None)
    assert_type(await template.request("q", 1, type=str, timeout=0), str | None)
    assert_type(await template.request("q", 1), Any)
