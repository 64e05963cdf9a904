"""JmsTemplate on a counting provider: settings, calls, order, transactions, replies."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import anyio
import pytest

from pyjms import errors
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    DestinationResolutionException,
    IllegalStateException,
    InvalidSelectorException,
    JMSException,
    MessageConversionException,
)
from pyjms.jms.api import MessageProducer, Session
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.support.converter import DefaultMessageConverter, SimpleMessageConverter
from pyjms.support.qos import QosSettings
from pyjms.template import resources
from pyjms.template.template import JmsTemplate, TemplateOptions
from tests.kit.clients.jms_provider import JmsProvider, ProviderSession

CALLS = (
    "ConnectionFactory.createConnection", "Connection.start", "Connection.close",
    "Connection.createSession", "Session.close", "Session.createProducer", "Producer.close",
    "Session.createConsumer", "Consumer.close",
)  # fmt: skip


def text(content: str) -> Any:
    return lambda session: session.create_text_message(content)


def content(message: Message | None) -> str | None:
    assert isinstance(message, TextMessage)
    return message.text


@pytest.mark.fact("spring-jms 4.1")
async def test_defaults(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    template = JmsTemplate(provider)
    recorded = dict(oracle["template-qos"]["defaults"])
    # Spring's 0 is "for ever" and -1 "no delay": None here.
    assert (recorded.pop("receiveTimeout"), template.receive_timeout) == (0, None)
    assert (recorded.pop("deliveryDelay"), template.delivery_delay) == (-1, None)
    assert recorded == {
        "explicitQosEnabled": template.explicit_qos_enabled,
        "deliveryMode": template.delivery_mode,
        "priority": template.priority,
        "timeToLive": template.time_to_live,
        "messageIdEnabled": template.message_id_enabled,
        "messageTimestampEnabled": template.message_timestamp_enabled,
        "pubSubNoLocal": template.pub_sub_no_local,
        "pubSubDomain": template.pub_sub_domain,
        "sessionTransacted": template.session_transacted,
        "sessionAcknowledgeMode": template.session_acknowledge_mode,
    }
    assert isinstance(template.message_converter, DefaultMessageConverter)


async def test_qos_counts_only_when_it_is_explicit(provider: JmsProvider) -> None:
    given: dict[str, Any] = {
        "delivery_mode": DeliveryMode.NON_PERSISTENT, "priority": 9, "time_to_live": 60.0,
    }  # fmt: skip
    assert JmsTemplate(provider, **given).explicit_qos_enabled  # who gives them means them
    template = JmsTemplate(provider, explicit_qos_enabled=False, **given)
    await template.convert_and_send("q", "implicit")
    template.explicit_qos_enabled = True
    await template.convert_and_send("q", "explicit")
    template.delivery_persistent = True
    await template.convert_and_send("q", "persistent")
    implicit, explicit, persistent = provider.messages("q")
    assert (implicit.delivery_mode, implicit.priority, implicit.expiration) == (2, 4, 0)
    assert (explicit.delivery_mode, explicit.priority) == (1, 9)
    assert explicit.expiration == explicit.timestamp + 60000
    assert (persistent.delivery_mode, persistent.priority) == (2, 9)


@pytest.mark.fact("spring-jms 4.2")
async def test_setting_qos_and_delivery_delay(provider: JmsProvider) -> None:
    template = JmsTemplate(provider)
    template.delivery_mode, template.priority, template.time_to_live = DeliveryMode(1), 9, 60.0
    assert not template.explicit_qos_enabled
    await template.convert_and_send("q", "a")
    [implicit] = provider.messages("q")
    assert (implicit.delivery_mode, implicit.priority, implicit.expiration) == (2, 4, 0)
    template.set_qos_settings(QosSettings(DeliveryMode.NON_PERSISTENT, 7, 1.0))
    assert template.explicit_qos_enabled
    await template.convert_and_send("q", "b")  # type: ignore[unreachable]
    explicit = provider.messages("q")[1]
    assert (explicit.delivery_mode, explicit.priority, explicit.expiration) == (1, 7, 2000)
    template.delivery_persistent = True
    assert template.delivery_mode is DeliveryMode.PERSISTENT
    template.delivery_persistent = False
    assert template.delivery_mode is DeliveryMode.NON_PERSISTENT
    template.explicit_qos_enabled = False
    for delay, later in ((0, 0), (1.5, 1500)):  # counts, independent of explicit qos
        template.delivery_delay = delay
        await template.convert_and_send("q", "c")
        delayed = provider.messages("q")[-1]
        assert delayed.delivery_time == delayed.timestamp + later
        assert (delayed.delivery_mode, delayed.priority) == (2, 4)


@pytest.mark.fact("spring-jms 4.3")
async def test_a_send_overwrites_its_own_headers_only(provider: JmsProvider) -> None:
    def create(session: Any) -> Message:
        message: Message = session.create_text_message("x")
        message.priority, message.delivery_mode, message.expiration = 9, DeliveryMode(1), 5
        message.correlation_id, message.type, message.reply_to = "c", "t", Queue("r")
        message.properties["p"] = 1
        return message

    await JmsTemplate(provider).send("q", create)
    [sent] = provider.messages("q")
    assert (sent.priority, sent.delivery_mode, sent.expiration) == (4, 2, 0)
    assert (sent.correlation_id, sent.type, sent.reply_to) == ("c", "t", Queue("r"))
    assert sent.properties["p"] == 1


@pytest.mark.fact("spring-jms 4.4")
async def test_ids_and_timestamps_can_be_turned_off(provider: JmsProvider) -> None:
    template = JmsTemplate(provider, message_id_enabled=False, message_timestamp_enabled=False)
    await template.convert_and_send("q", "x")
    await JmsTemplate(provider).convert_and_send("q", "y")
    without, with_both = provider.messages("q")
    assert (without.message_id, without.timestamp) == (None, 0)
    assert with_both.message_id
    assert with_both.timestamp


@pytest.mark.fact("spring-jms 4.5")
async def test_default_destinations(provider: JmsProvider) -> None:
    template = JmsTemplate(provider)
    for operation in (
        template.convert_and_send(None, "x"),
        template.receive(),
        template.browse(None, lambda session, browser: None),
    ):
        with pytest.raises(
            IllegalStateException, match="No 'default_destination' or 'default_destination_name'"
        ):
            await operation
    unbound = await template.execute_producer(None, lambda session, producer: producer.destination)
    assert unbound is None
    template.default_destination_name = "named"
    await template.convert_and_send(None, "by name")
    template.default_destination = Queue("object")
    await template.convert_and_send(None, "by object")
    assert (provider.texts("named"), provider.texts("object")) == (["by name"], ["by object"])
    bound = await template.execute_producer(None, lambda session, producer: producer.destination)
    assert bound == Queue("object")
    template.default_destination = Topic("t")
    with pytest.raises(IllegalStateException):
        await template.browse(None, lambda session, browser: None)
    with pytest.raises(DestinationResolutionException):
        await template.browse(Topic("t"), lambda session, browser: None)


@pytest.mark.fact("spring-jms 4.6")
async def test_all_operations(provider: JmsProvider) -> None:
    template = JmsTemplate(provider, receive_timeout=0, default_destination_name="d")
    mode = await template.execute(lambda session: session.acknowledge_mode)
    assert mode is AcknowledgeMode.AUTO

    async def is_started(session: Session) -> bool:
        assert isinstance(session, ProviderSession)
        return session.connection.started

    started: bool = await template.execute(is_started)
    assert not started
    started = await template.execute(is_started, start_connection=True)
    assert started

    async def produce(session: Session, producer: MessageProducer) -> bool:
        await producer.send(session.create_text_message("produced"))
        return True

    produced: bool = await template.execute_producer("q", produce)
    assert produced
    await template.send("q", text("sent"))

    async def create(session: Any) -> Message:
        message: Message = text("created")(session)
        return message

    await template.send(Queue("q"), create)
    await template.convert_and_send("q", "converted")

    async def number(message: Message) -> Message:
        message.properties["n"] = "1"
        return message

    await template.convert_and_send("q", "processed", post_processor=number)
    await template.convert_and_send(None, "default")

    async def names(session: Any, browser: Any) -> list[str | None]:
        return [content(message) async for message in browser]

    found: list[str | None] = await template.browse("q", names)
    assert found == ["produced", "sent", "created", "converted", "processed"]
    found = await template.browse_selected("q", "n = '1'", names)
    assert found == ["processed"]
    assert content(await template.receive_selected("q", "n = '1'")) == "processed"
    assert content(await template.receive("q")) == "produced"
    assert await template.receive_and_convert("q") == "sent"
    await template.convert_and_send("q", "chosen", post_processor=number)
    assert await template.receive_selected_and_convert("q", "n = '1'") == "chosen"
    assert await template.receive_and_convert() == "default"
    assert await template.receive() is None
    assert await template.receive_selected("q", "n = '1'") is None
    assert await template.receive_and_convert() is None
    assert await template.receive_selected_and_convert("q", "n = '1'") is None
    assert await template.send_and_receive("q", text("nobody answers")) is None


@pytest.mark.fact("spring-jms 4.7")
async def test_the_post_processors_result_is_sent(provider: JmsProvider) -> None:
    order: list[str] = []

    class Converter(SimpleMessageConverter):
        def to_message(self, payload: object, session: Session) -> Message:
            order.append("convert")
            return super().to_message(payload, session)

    def replace(message: Message) -> Message:
        order.append(f"process {content(message)}")
        return TextMessage("replaced")

    template = JmsTemplate(provider, message_converter=Converter())
    await template.convert_and_send("q", "payload", post_processor=replace)
    message = TextMessage("as it is")
    await template.convert_and_send("q", message)
    assert order == ["convert", "process payload", "convert"]
    assert provider.texts("q") == ["replaced", "as it is"]
    assert message.message_id == provider.messages("q")[1].message_id


@pytest.mark.parametrize("bad", [None, "text"])
async def test_what_must_return_a_message(provider: JmsProvider, bad: str | None) -> None:
    template = JmsTemplate(provider)
    with pytest.raises(TypeError, match="post processor must return the message"):
        await template.convert_and_send("q", "x", post_processor=lambda m: bad)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="message creator must return the message"):
        await template.send("q", lambda s: bad)  # type: ignore[arg-type,return-value]
    assert provider.counts["Connection.close"] == 2


@pytest.mark.parametrize("payload", ["text", TextMessage("text")])
async def test_a_payload_is_not_a_creator(provider: JmsProvider, payload: Any) -> None:
    template = JmsTemplate(provider)
    kind = type(payload).__name__
    with pytest.raises(TypeError, match=rf"not {kind}; convert_and_send takes a payload"):
        await template.send("q", payload)
    with pytest.raises(TypeError, match=rf"not {kind}; convert_and_send takes a payload"):
        await template.send_and_receive("q", payload)
    assert not provider.counts["ConnectionFactory.createConnection"]


def test_the_options_of_both_faces_are_the_same() -> None:
    parameters = inspect.signature(JmsTemplate).parameters
    assert list(parameters)[1:] == list(TemplateOptions.__annotations__)
    hints, given = get_type_hints(JmsTemplate.__init__), get_type_hints(TemplateOptions)
    assert {name: hints[name] for name in given} == given


@pytest.mark.fact("spring-jms 4.8")
async def test_calls_on_a_raw_factory(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    recorded = oracle["connection-factories"][0]
    template = JmsTemplate(provider)
    for number in range(10):
        await template.convert_and_send("q", str(number))
    sends = {name: provider.counts[name] for name in CALLS}
    assert sends == recorded["10 x convertAndSend to one queue"]
    provider.counts.clear()
    for number in range(10):
        assert await template.receive_and_convert("q") == str(number)
    assert {name: provider.counts[name] for name in CALLS} == recorded[
        "10 x receive from one queue"
    ]
    provider.counts.clear()
    await template.browse("q", lambda session, browser: None)
    await template.execute(lambda session: None)
    template.receive_timeout = 0
    await template.send_and_receive("q", text("x"))
    assert provider.counts["Connection.start"] == 2  # browse, send_and_receive
    assert provider.counts["Connection.createSession"] == provider.counts["Session.close"] == 3
    assert provider.counts["Browser.close"] == 1


@pytest.mark.fact("spring-jms 4.9", "spring-jms 4.1.4")
async def test_small_transactions_and_acknowledgements(provider: JmsProvider) -> None:
    template = JmsTemplate(provider, session_transacted=True, receive_timeout=0)
    await template.convert_and_send("q", "a")
    assert (provider.counts["Session.commit"], provider.texts("q")) == (1, ["a"])
    assert await template.receive_and_convert("q") == "a"
    assert await template.receive_and_convert("q") is None
    assert provider.counts["Session.commit"] == 3
    assert provider.texts("q") == []
    provider.counts.clear()
    for mode, acknowledged in (
        (AcknowledgeMode.AUTO, 0), (AcknowledgeMode.DUPS_OK, 0), (AcknowledgeMode.CLIENT, 1),
        (AcknowledgeMode.INDIVIDUAL, 1),
    ):  # fmt: skip
        template = JmsTemplate(provider, session_acknowledge_mode=mode, receive_timeout=0)
        await template.convert_and_send("q", "b")
        assert await template.receive_and_convert("q") == "b"
        assert await template.receive("q") is None
        assert provider.counts.pop("Message.acknowledge", 0) == acknowledged
    assert provider.counts["Session.commit"] == 0


async def test_a_template_that_waits_forever(provider: JmsProvider) -> None:
    template = JmsTemplate(provider)
    got: list[object] = []

    async def wait() -> None:
        got.append(await template.receive_and_convert("q"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert got == []
        await template.convert_and_send("q", "late")
    assert got == ["late"]


async def test_a_cancelled_receive_closes_everything(provider: JmsProvider) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(JmsTemplate(provider).receive, "q")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    closed = [provider.counts[c] for c in ("Consumer.close", "Session.close", "Connection.close")]
    assert closed == [1, 1, 1]


async def test_failures_close_everything_and_come_out(provider: JmsProvider) -> None:
    provider.failures["Producer.send"] = JMSException("no")
    provider.failures["Producer.close"] = JMSException("also no")
    with pytest.raises(JMSException, match=r"^no$"):
        await JmsTemplate(provider).convert_and_send("q", "x")
    assert provider.counts["Connection.close"] == provider.counts["Session.close"] == 1
    provider.failures.pop("Producer.send")
    with pytest.raises(JMSException, match="also no"):
        await JmsTemplate(provider).convert_and_send("q", "x")


@pytest.mark.fact("spring-jms 4.12")
@pytest.mark.parametrize("name", errors.__all__)
async def test_jms_exceptions_come_out_as_what_they_are(provider: JmsProvider, name: str) -> None:
    """One tree serves JMS and Spring: there is nothing to convert."""
    error = getattr(errors, name)("why")
    provider.failures["Session.createProducer"] = error
    with pytest.raises(type(error)) as caught:
        await JmsTemplate(provider).convert_and_send("q", "x")
    assert caught.value is error


async def test_topics_and_no_local(provider: JmsProvider) -> None:
    seen: list[tuple[Any, Any, bool]] = []

    async def look(template: JmsTemplate) -> None:
        def spy(session: Any) -> None:
            original = session.create_consumer

            async def create(destination: Any, selector: Any = None, *, no_local: bool) -> Any:
                seen.append((destination, selector, no_local))
                return await original(destination, selector, no_local=no_local)

            session.create_consumer = create

        await template.execute(spy, start_connection=True)
        await template.receive("t")

    connection = await provider.create_connection()
    session = await connection.create_session()
    with resources.bind(provider, resources.BoundResource(connection, session)):
        await look(
            JmsTemplate(provider, pub_sub_domain=True, pub_sub_no_local=True, receive_timeout=0)
        )
        await look(JmsTemplate(provider, pub_sub_no_local=True, receive_timeout=0))
    assert seen == [(Topic("t"), None, True), (Queue("t"), None, False), (Queue("t"), None, False)]


@pytest.mark.fact("spring-jms 4.11")
async def test_send_and_receive_over_a_temporary_queue(provider: JmsProvider) -> None:
    template = JmsTemplate(provider, session_transacted=True)
    answers: list[Message | None] = []
    requests: list[Message] = []

    async def ask() -> None:
        answers.append(await template.send_and_receive("q", text("ping")))

    async def answer() -> None:
        service = JmsTemplate(provider)
        request = await service.receive("q")
        assert request is not None
        requests.append(request)
        assert isinstance(request.reply_to, TemporaryQueue)
        # the consumer was there before the request
        assert provider.counts["Session.createConsumer"] >= 1
        await service.convert_and_send(request.reply_to, "pong")

    connection = await provider.create_connection()
    session = await connection.create_session(transacted=True)
    with resources.bind(provider, resources.BoundResource(connection, session, True)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert provider.texts("q") == ["ping"]  # visible, though a transaction is open
            assert provider.counts["Connection.createSession"] == 2
            assert provider.counts["ConnectionFactory.createConnection"] == 2
            with resources.bind(provider, None):
                await answer()
    assert content(answers[0]) == "pong"
    assert provider.counts["Session.commit"] == 0
    assert provider.counts["TemporaryQueue.delete"] == 1
    template.receive_timeout = 0
    assert await template.send_and_receive("q", text("x")) is None
    assert provider.counts["TemporaryQueue.delete"] == 2

    template.receive_timeout = None
    for correlation_id in ("it's mine", None):

        def create(session: Any, correlation_id: str | None = correlation_id) -> Message:
            message: Message = session.create_text_message("ask")
            message.correlation_id = correlation_id
            return message

        async def ask_with_queue(create: Any = create) -> None:
            answers.append(await template.send_and_receive("q2", create, response_queue="r"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_with_queue)
            await anyio.wait_all_tasks_blocked()
            request = await JmsTemplate(provider).receive("q2")
            assert request is not None
            assert request.reply_to == Queue("r")
            await JmsTemplate(provider).convert_and_send("r", "not for me")
            reply = TextMessage("for me")
            reply.correlation_id = correlation_id or request.message_id
            await JmsTemplate(provider).convert_and_send("r", reply)
        assert content(answers[-1]) == "for me"
    assert provider.counts["TemporaryQueue.delete"] == 2


async def test_a_failed_request_deletes_the_temporary_queue(provider: JmsProvider) -> None:
    provider.failures["Producer.send"] = JMSException("no")
    with pytest.raises(JMSException, match=r"^no$"):
        await JmsTemplate(provider).send_and_receive("q", text("x"))
    assert provider.counts["TemporaryQueue.delete"] == 1


async def test_a_bad_selector(provider: JmsProvider) -> None:
    with pytest.raises(InvalidSelectorException):
        await JmsTemplate(provider).receive_selected("q", "=")


async def test_payloads_of_a_type(provider: JmsProvider) -> None:
    template = JmsTemplate(provider)
    await template.convert_and_send("q", [1, 2])
    assert await template.receive_and_convert("q", list[int]) == [1, 2]
    await template.convert_and_send("q", "no number")
    with pytest.raises(MessageConversionException):
        await template.receive_and_convert("q", int)


def test_every_operation_is_a_coroutine_method() -> None:
    operations = (
        "execute", "execute_producer", "send", "convert_and_send", "receive", "receive_selected",
        "receive_and_convert", "receive_selected_and_convert", "send_and_receive", "browse",
        "browse_selected",
    )  # fmt: skip
    assert all(inspect.iscoroutinefunction(getattr(JmsTemplate, name)) for name in operations)
