"""Sends with a completion listener: JMS 2.0, section 7.3; and ActiveMQ's AsyncCallback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.pool import JmsPoolConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    MessageFormatException,
    MessageNotWriteableException,
    RequestTimeoutException,
)
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message, TextMessage
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api import Broker
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client

Q = Queue("q")


class Outcomes:
    """A completion listener that records its calls, and an AsyncCallback."""

    def __init__(self, then: Callable[[], Awaitable[None]] | None = None) -> None:
        self.calls: list[str] = []
        self.errors: list[JMSException] = []
        self.then = then

    def on_completion(self, message: Message) -> Awaitable[None] | None:
        assert isinstance(message, TextMessage)
        self.calls.append(f"{message.text} sent")
        return self.then() if self.then else None

    def on_success(self) -> None:
        self.calls.append("success")

    def on_exception(self, *given: Any) -> None:
        self.calls.append(" ".join([*(m.text for m in given[:-1]), type(given[-1]).__name__]))
        self.errors.append(given[-1])


class Silence(BrokerFilter):
    """Answers no send, and calls `sent` for each."""

    def __init__(self, following: Broker, sent: Callable[[], None]) -> None:
        super().__init__(following)
        self.sent = sent

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        self.sent()
        return Completion()


def silent_broker(sent: Callable[[], None] = lambda: None) -> EmbeddedTestBroker:
    """Return a broker that answers no send, and calls `sent` for each."""
    plugin = partial(Silence, sent=sent)
    return EmbeddedTestBroker(BrokerService("silent", persistent=False, plugins=[plugin]))


class Refusals(BrokerFilter):
    """Refuses messages of which the body contains `bad`."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if b"bad" in (message.content or b""):
            raise JMSSecurityException("this one is refused")
        return self.next.send(exchange, message)


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.parametrize("mode", list(DeliveryMode), ids=lambda mode: mode.name.lower())
async def test_callbacks_come_after_the_sends_and_in_their_order(
    client: Client, mode: DeliveryMode
) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    producer.delivery_mode = mode
    outcomes = Outcomes()
    messages = [session.create_text_message(str(i)) for i in range(5)]
    for message in messages:
        await producer.send(message, completion_listener=outcomes)
    assert outcomes.calls == []
    await session.wait_for_completions()
    assert outcomes.calls == [f"{i} sent" for i in range(5)]
    assert len({message.message_id for message in messages}) == 5
    assert await client.left("q") == ["0", "1", "2", "3", "4"]


@pytest.mark.fact("jms-api 3.11")
async def test_a_send_that_the_broker_refuses_ends_in_on_exception(clock: VirtualClock) -> None:
    service = BrokerService("refusing", persistent=False, plugins=[Refusals])
    async with EmbeddedTestBroker(service) as broker:
        client = Client(broker)
        session = await client.session()
        producer = await session.create_producer()
        outcomes = Outcomes()
        for text in ("good", "bad", "better"):
            message = session.create_text_message(text)
            await producer.send(message, destination=Q, completion_listener=outcomes)
        await session.close()
        assert outcomes.calls == ["good sent", "bad JMSSecurityException", "better sent"]
        assert "this one is refused" in str(outcomes.errors[0])
        assert await client.left("q") == ["good", "better"]
        await client.opened[0].close()


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.fact("activemq-edges N22")
async def test_errors_of_the_call_are_raised_by_it(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    outcomes = Outcomes()
    message = session.create_text_message("x")
    broken = session.create_message()
    broken.property_values()["bad"] = object()
    with pytest.raises(MessageFormatException):
        await producer.send(broken, completion_listener=outcomes)
    for wrong in (print, object(), "listener"):
        with pytest.raises(TypeError, match=r"has no on_completion\(\)"):
            await producer.send(message, completion_listener=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"has no on_success\(\)"):
        await producer.send(Q, message, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not both"):
        await producer.send(message, callback=outcomes, completion_listener=outcomes)
    await producer.close()
    with pytest.raises(IllegalStateException, match="The producer is closed"):
        await producer.send(message, completion_listener=outcomes)
    assert outcomes.calls == []


@pytest.mark.fact("jms-api 3.11")
async def test_the_message_is_not_usable_before_its_callback(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    outcomes = Outcomes()
    message = session.create_text_message("x")
    await producer.send(message, completion_listener=outcomes)
    with pytest.raises(MessageNotWriteableException):
        message.text = "y"
    with pytest.raises(MessageNotWriteableException):
        message.properties["n"] = 1
    with pytest.raises(IllegalStateException, match="being sent asynchronously"):
        await producer.send(message, completion_listener=outcomes)
    await session.wait_for_completions()
    message.text = "y"
    await producer.send(message, completion_listener=outcomes)
    await producer.close()
    assert outcomes.calls == ["x sent", "y sent"]


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.parametrize("what", ["producer", "session", "connection"])
async def test_close_waits_for_the_callbacks_and_cannot_be_called_by_one(
    client: Client, what: str
) -> None:
    connection = await client.connect()
    session = await client.session(connection=connection)
    producer = await session.create_producer(Q)
    resource = {"producer": producer, "session": session, "connection": connection}[what]
    refused: list[str] = []

    async def close() -> None:
        with pytest.raises(IllegalStateException, match="completion listener") as error:
            await resource.close()
        refused.append(str(error.value))

    outcomes = Outcomes(close)
    await producer.send(session.create_text_message("x"), completion_listener=outcomes)
    await resource.close()
    assert outcomes.calls == ["x sent"]
    assert len(refused) == 1
    await resource.close()
    assert await client.left("q") == ["x"]


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_the_end_of_a_transaction_waits_and_cannot_be_called_by_a_callback(
    client: Client, end: str
) -> None:
    session = await client.session(AcknowledgeMode.TRANSACTED)
    producer = await session.create_producer(Q)
    refused: list[str] = []

    async def finish() -> None:
        with pytest.raises(IllegalStateException) as error:
            await getattr(session, end)()
        refused.append(str(error.value))

    outcomes = Outcomes(finish)
    await producer.send(session.create_text_message("x"), completion_listener=outcomes)
    await getattr(session, end)()
    assert outcomes.calls == ["x sent"]
    assert refused[0].startswith(f"{end}() cannot be called in a completion listener")
    await session.close()
    assert await client.left("q") == (["x"] if end == "commit" else [])


@pytest.mark.fact("jms-api 3.11")
async def test_no_callback_runs_beside_a_listener_of_its_session(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)
    consumer = await session.create_consumer(Queue("in"))
    entered, leave, sent = anyio.Event(), anyio.Event(), anyio.Event()
    steps: list[str] = []

    async def sent_now() -> None:
        steps.append("completion")
        sent.set()

    async def listen(message: Message) -> None:
        entered.set()
        await leave.wait()
        steps.append("listener")

    await consumer.set_message_listener(listen)
    await client.send("in", "go")
    await entered.wait()
    await producer.send(session.create_text_message("x"), completion_listener=Outcomes(sent_now))
    await client.settle()
    assert steps == []
    leave.set()
    await sent.wait()
    assert steps == ["listener", "completion"]


async def test_a_listener_that_commits_gets_its_callbacks_first(client: Client) -> None:
    session = await client.session(AcknowledgeMode.TRANSACTED)
    producer = await session.create_producer(Q)
    consumer = await session.create_consumer(Queue("in"))
    outcomes, done = Outcomes(), anyio.Event()

    async def listen(message: Message) -> None:
        for text in ("a", "b"):
            await producer.send(session.create_text_message(text), completion_listener=outcomes)
        await session.commit()
        outcomes.calls.append("committed")
        done.set()

    await consumer.set_message_listener(listen)
    await client.send("in", "go")
    await done.wait()
    assert outcomes.calls == ["a sent", "b sent", "committed"]
    assert await client.left("q") == ["a", "b"]


async def test_a_callback_that_raises_is_logged_and_the_next_one_called(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    session = await client.session()
    producer = await session.create_producer(Q)

    async def fail() -> None:
        raise LookupError("in the callback")

    outcomes = Outcomes(fail)
    for text in ("a", "b"):
        await producer.send(session.create_text_message(text), completion_listener=outcomes)
    await session.close()
    assert outcomes.calls == ["a sent", "b sent"]
    assert caplog.text.count("LookupError: in the callback") == 2


async def test_a_lost_connection_ends_all_sends_in_on_exception(clock: VirtualClock) -> None:
    held = anyio.Event()
    outcomes = Outcomes()
    async with silent_broker(held.set) as broker:
        connection = await ConnectionFactory(broker.url).create_connection()
        session = await connection.create_session()
        producer = await session.create_producer(Q)
        for text in ("a", "b"):
            await producer.send(session.create_text_message(text), completion_listener=outcomes)
        await held.wait()
    assert connection.failure is not None
    await connection.close()
    assert outcomes.calls == ["a ConnectionFailedException", "b ConnectionFailedException"]
    assert isinstance(outcomes.errors[0], ConnectionFailedException)


async def test_close_gives_up_on_a_silent_broker_after_the_close_timeout(
    clock: VirtualClock,
) -> None:
    outcomes = Outcomes()
    async with silent_broker() as broker:
        factory = ConnectionFactory(broker.url, close_timeout=2.0)
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Q)
            await producer.send(session.create_text_message("a"), completion_listener=outcomes)
            await session.close()
            assert outcomes.calls == ["a IllegalStateException"]


async def test_a_producer_closes_without_a_silent_broker_after_the_close_timeout(
    clock: VirtualClock,
) -> None:
    outcomes = Outcomes()
    async with silent_broker() as broker:
        factory = ConnectionFactory(broker.url, close_timeout=2.0)
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Q)
            await producer.send(session.create_text_message("a"), completion_listener=outcomes)
            with anyio.fail_after(2.5):
                await producer.close()
            assert outcomes.calls == []
            with pytest.raises(IllegalStateException):
                await producer.send(session.create_text_message("b"))
            await session.close()
            assert outcomes.calls == ["a IllegalStateException"]


async def test_a_pooled_connection_closes_without_a_silent_broker(clock: VirtualClock) -> None:
    outcomes = Outcomes()
    async with silent_broker() as broker:
        factory = ConnectionFactory(broker.url, close_timeout=2.0)
        async with JmsPoolConnectionFactory(factory) as pool:
            for text in ("a", "b"):
                connection = await pool.create_connection()
                session = await connection.create_session()
                producer = await session.create_producer(Q)
                message = session.create_text_message(text)
                await producer.send(message, completion_listener=outcomes)
                if text == "a":
                    await connection.close()
                else:
                    with anyio.move_on_after(0):
                        await session.close()
                assert pool.stats.active_sessions.count == 0
    assert outcomes.calls == ["a IllegalStateException", "b IllegalStateException"]


@pytest.mark.parametrize("cancelled", [False, True], ids=["waits", "cancelled"])
async def test_a_cached_session_closes_without_a_silent_broker(
    clock: VirtualClock, cancelled: bool
) -> None:
    outcomes = Outcomes()
    async with silent_broker() as broker:
        factory = ConnectionFactory(broker.url, close_timeout=2.0)
        async with CachingConnectionFactory(factory) as caching:
            session = await (await caching.create_connection()).create_session()
            producer = await session.create_producer(Q)
            message = session.create_text_message("a")
            await producer.send(message, completion_listener=outcomes)
            if cancelled:
                with anyio.move_on_after(0):
                    await session.close()
            else:
                with pytest.raises(RequestTimeoutException):
                    await session.close()
            assert outcomes.calls == ["a IllegalStateException"]


@pytest.mark.fact("activemq-edges N22")
async def test_the_async_callback_of_activemq(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer()
    outcomes = Outcomes()
    await producer.send(Q, session.create_text_message("x"), outcomes)
    await producer.send(session.create_text_message("y"), destination=Q, callback=outcomes)
    await producer.close()
    assert outcomes.calls == ["success", "success"]
    assert await client.left("q") == ["x", "y"]


async def test_a_cached_session_is_not_reused_before_the_callbacks(client: Client) -> None:
    outcomes = Outcomes()
    async with CachingConnectionFactory(client.factory()) as factory:
        connection = await factory.create_connection()
        session = await connection.create_session()
        producer = await session.create_producer(Q)
        await producer.send(session.create_text_message("x"), completion_listener=outcomes)
        await session.close()
        assert outcomes.calls == ["x sent"]
        assert await client.left("q") == ["x"]
