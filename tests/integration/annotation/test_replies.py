"""Where handlers' results go, over the real broker; Spring's recorded answers as data."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide

from pyjms import (
    ApplicationContainer,
    DeliveryMode,
    GenericMessage,
    JmsResponse,
    ListenerExecutionFailedException,
    Message,
    PyjmsSettings,
    Queue,
    RemoteError,
    Retry,
    Topic,
    jms_listener,
    send_to,
)
from pyjms.aio import (
    ConnectionFactory,
    DefaultJmsListenerContainerFactory,
    JmsClient,
    JmsMessagingTemplate,
    Session,
)
from pyjms.errors import MessageConversionException, ReplyFailureException
from pyjms.jms.message import TextMessage
from pyjms.support.qos import QosSettings
from pyjms.template.interceptors import Proceed, SendInvocation
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of
from tests.kit.clients.queues import embedded
from tests.kit.data import spring_oracle


def request(text: str, **headers: Any) -> Any:
    def create(session: Session) -> Message:
        message = session.create_text_message(text)
        for name, value in headers.items():
            setattr(message, name, value)
        return message

    return create


@jms_listener("echo", id="echo", concurrency="${app.range:2-3}")
async def echo(text: str) -> str:
    return f"re:{text}"


@jms_listener("sendto")
@send_to("sendto.out")
def sendto(text: str) -> str:
    return f"to:{text}"


@jms_listener("response")
@send_to("never")
async def response(text: str) -> JmsResponse:
    return JmsResponse.for_queue(f"jr:{text}", "response.out")


@jms_listener("raw")
@send_to("raw.out")
async def raw(text: str, session: Session) -> Message:
    message = session.create_text_message(f"msg:{text}")
    message.correlation_id = "overwritten"
    message.type = "kept"
    return message


@jms_listener("silent")
async def silent(text: str) -> None:
    assert text


HANDLERS = (echo, sendto, response, raw, silent)
RECORDED = (
    # what Spring's scenario is called, our request, where the answer arrives
    ("JMSReplyTo, no correlation id", "echo", request("one", reply_to=Queue("replies"))),
    (
        "JMSReplyTo and correlation id",
        "echo",
        request("two", reply_to=Queue("replies"), correlation_id="corr-2"),
    ),
    ("@SendTo, no JMSReplyTo", "sendto", request("four", correlation_id="c4")),
    (
        "JmsResponse.forQueue wins over JMSReplyTo and @SendTo",
        "response",
        request("six", reply_to=Queue("replies"), correlation_id="c6"),
    ),
)


@pytest.mark.parametrize(("case", "queue", "create"), RECORDED, ids=lambda v: str(v)[:40])
async def test_answers_are_those_that_spring_gave(
    jms_app: JmsTestApp, case: str, queue: str, create: Any
) -> None:
    wanted = spring_oracle()["annotated-listener"][case]
    await jms_app.start(*HANDLERS)
    await jms_app.template.send(queue, create)
    answer = await jms_app.template.receive(wanted["JMSDestination"].removeprefix("queue://"))
    assert answer is not None
    correlation = answer.correlation_id
    await jms_app.drained(queue, raise_errors=True)
    (asked,) = jms_app.recorder.messages({"echo": echo, "sendto": sendto}.get(queue, response))
    assert isinstance(answer, TextMessage)
    assert {
        "text": answer.text,
        "JMSDestination": str(answer.destination),
        "JMSDeliveryMode": int(answer.delivery_mode),
        "JMSPriority": answer.priority,
        "JMSExpiration": answer.expiration,
        "JMSRedelivered": answer.redelivered,
        "JMSReplyTo": answer.reply_to,
        "JMSType": answer.type,
        "correlation": "request JMSMessageID" if correlation == asked.message_id else correlation,
    } == {
        key: wanted[key]
        for key in (
            *("text", "JMSDestination", "JMSDeliveryMode", "JMSPriority", "JMSExpiration"),
            *("JMSRedelivered", "JMSReplyTo", "JMSType", "correlation"),
        )
    }


@pytest.mark.fact("spring-jms 6.2.1")
async def test_none_is_not_a_reply_and_replies_are_in_the_transaction(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def twice(text: str, template: Annotated[Any, Provide["jms_template"]]) -> object:
        await template.convert_and_send("aside", text)
        return object() if text == "lost" else text

    await jms_app.start(twice, silent)
    await jms_app.template.send("in", request("lost", reply_to=Queue("replies")))
    await jms_app.template.send("in", request("done", reply_to=Queue("replies")))
    await jms_app.template.send("silent", request("x", reply_to=Queue("replies")))
    await jms_app.drained("in")
    await jms_app.drained("silent", raise_errors=False)
    assert await jms_app.template.receive_and_convert("replies") == "done"
    statistics = embedded(jms_app.broker).queue_statistics
    assert (statistics("replies").enqueues, statistics("aside").enqueues) == (1, 1)


@pytest.mark.fact("spring-jms 6.2.2")
async def test_reply_to_wins_over_send_to(jms_app: JmsTestApp) -> None:
    await jms_app.start(sendto)
    await jms_app.template.send("sendto", request("five", reply_to=Queue("replies")))
    assert await jms_app.template.receive_and_convert("replies") == "to:five"
    assert embedded(jms_app.broker).queue_statistics("sendto.out").enqueues == 0


@pytest.mark.fact("spring-jms 6.2.2")
async def test_send_to_of_a_class_and_placeholders(jms_app: JmsTestApp) -> None:
    @send_to("${where:class.out}")
    class Handlers:
        @jms_listener("a")
        def a(self, text: str) -> str:
            return f"a:{text}"

        @jms_listener("b")
        @send_to("own.out")
        async def b(self, text: str) -> str:
            return f"b:{text}"

    await jms_app.start(Handlers())
    await jms_app.template.convert_and_send("a", "1")
    await jms_app.template.convert_and_send("b", "2")
    assert await jms_app.template.receive_and_convert("class.out") == "a:1"
    assert await jms_app.template.receive_and_convert("own.out") == "b:2"


@pytest.mark.fact("spring-jms 6.2.3")
async def test_responses_name_their_destination(jms_app: JmsTestApp) -> None:
    made: list[JmsResponse] = [
        JmsResponse.for_queue("q", "one"),
        JmsResponse.for_topic("t", "two"),
        JmsResponse.for_destination("d", Queue("three")),
    ]
    assert [r.destination for r in made] == [Queue("one"), Topic("two"), Queue("three")]
    with pytest.raises(ValueError, match="must not be None"):
        JmsResponse.for_queue(None, "one")

    @jms_listener("in")
    async def handler(text: str, session: Session) -> JmsResponse:
        return JmsResponse.for_queue(session.create_text_message(text), "out")

    await jms_app.start(handler)
    await jms_app.template.convert_and_send("in", "message")
    assert await jms_app.template.receive_and_convert("out") == "message"


@pytest.mark.fact("spring-jms 6.2.4")
async def test_the_correlation_id_is_the_request_s(jms_app: JmsTestApp) -> None:
    await jms_app.start(raw)
    await jms_app.template.send("raw", request("a", correlation_id="c-7"))
    await jms_app.template.send("raw", request("b"))
    first = await jms_app.template.receive("raw.out")
    second = await jms_app.template.receive("raw.out")
    asked = jms_app.recorder.messages(raw)
    assert isinstance(first, TextMessage)
    assert (first.text, first.correlation_id, first.type) == ("msg:a", "c-7", "kept")
    assert isinstance(second, TextMessage)
    assert (second.text, second.correlation_id) == ("msg:b", asked[1].message_id)


@pytest.mark.fact("spring-jms 6.2.6", "spring-jms 1.1/replyQosSettings")
async def test_answers_have_the_producer_s_defaults_or_the_container_s_settings(
    jms_app: JmsTestApp,
) -> None:
    class Container(ApplicationContainer):
        quick = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            reply_qos_settings=QosSettings(DeliveryMode.NON_PERSISTENT, 7, 60.0),
        )

    @jms_listener("a")
    @jms_listener("b", container_factory="quick")
    @send_to("out")
    async def handler(text: str) -> str:
        return text

    await jms_app.start(handler, container=Container)
    await jms_app.template.convert_and_send("a", "plain")
    plain = await jms_app.template.receive("out")
    assert plain is not None
    assert (plain.delivery_mode, plain.priority, plain.expiration) == (
        DeliveryMode.PERSISTENT,
        4,
        0,
    )
    await jms_app.template.convert_and_send("b", "quick")
    quick = await jms_app.template.receive("out")
    assert quick is not None
    assert (quick.delivery_mode, quick.priority) == (DeliveryMode.NON_PERSISTENT, 7)
    assert quick is not None
    assert quick.expiration > quick.timestamp


@pytest.mark.fact("spring-jms 6.2.7")
async def test_an_answer_that_cannot_be_sent_is_a_failure_of_the_listener(
    jms_app: JmsTestApp,
) -> None:
    seen: list[Exception] = []

    @jms_listener("in", id="in")
    @send_to("out")
    async def handler(text: str) -> object:
        return object()

    application = await jms_app.start(handler)
    application.registry["in"].error_handler = seen.append
    await jms_app.template.convert_and_send("in", "unknown")
    await jms_app.drained("in")
    assert len(seen) == 7
    assert all(isinstance(error, ReplyFailureException) for error in seen)
    assert issubclass(ReplyFailureException, ListenerExecutionFailedException)
    assert "Failed to send reply with payload" in str(seen[0])
    assert isinstance(seen[0].__cause__, MessageConversionException)
    assert [text_of(m) for m in await jms_app.dead_letters()] == ["unknown"]


@pytest.mark.fact("spring-jms 6.2.2")
async def test_a_result_without_a_destination_is_dropped_with_one_warning(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Spring: seven attempts and a dead letter, with all that the handler does in each of them."""

    @jms_listener("in", id="in")
    async def handler(text: str) -> str:
        return text

    await jms_app.start(handler)
    for text in ("one", "two"):
        await jms_app.template.convert_and_send("in", text)
    await jms_app.drained("in", raise_errors=True)
    assert jms_app.recorder.results(handler) == ["one", "two"]
    warnings = [r.getMessage() for r in caplog.records if r.name == "pyjms.listener.reply"]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "Listener in returns a value (str), and the message has no reply dest"
    )
    assert await jms_app.dead_letters() == []


@jms_listener("price", id="price", errors="reply")
def price(order: dict[str, int], template: Annotated[Any, Provide["jms_template"]]) -> int:
    if order["id"] == 0:
        raise ValueError("no such order")
    if order["id"] < 0:
        raise Retry("later", delay=0.0)
    return 5


@pytest.mark.parametrize("maximum", [0, 6])
async def test_an_exception_reaches_the_requester(jms_app: JmsTestApp, maximum: int) -> None:
    redelivery = {"redelivery": {"maximum": maximum}}
    await jms_app.start(price, settings=PyjmsSettings(activemq=redelivery))
    request = jms_app.template.request
    assert await request("price", {"id": 1}, timeout=5.0) == 5
    with pytest.raises(RemoteError, match=r"^ValueError: no such order$") as raised:
        await request("price", {"id": 0}, timeout=5.0)
    assert raised.value.type_name == "ValueError"
    with pytest.raises(RemoteError, match="MessageConversionException"):
        await request("price", "rubbish", timeout=5.0)
    await jms_app.drained("price")
    assert await jms_app.dead_letters() == []
    assert len(jms_app.recorder.calls(price)) == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"activemq": {"redelivery": {"maximum": 1}}},
        {"listeners": {"price": {"retry": {"maximum": 1}}}},
        {"listeners": {"price": {"retry": {"maximum": 1, "dead_letter": "ActiveMQ.DLQ"}}}},
    ],
)
async def test_an_exception_without_a_requester_makes_a_dead_letter(
    jms_app: JmsTestApp, settings: dict[str, Any]
) -> None:
    await jms_app.start(price, settings=PyjmsSettings(**settings))
    await jms_app.template.convert_and_send("price", {"id": 0})
    await jms_app.drained("price")
    assert len(jms_app.recorder.calls(price)) == 2
    assert len(await jms_app.dead_letters()) == 1


@pytest.mark.parametrize("retry", [{"maximum": 0}, {"maximum": 0, "dead_letter": "dead"}])
async def test_one_warning_says_that_requesters_are_not_told(
    jms_app: JmsTestApp, retry: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("price.untold", id="untold")
    def handler(number: int) -> int:
        raise ValueError("no such order")

    listeners = {"untold": {"retry": retry}}
    await jms_app.start(handler, settings=PyjmsSettings.model_validate({"listeners": listeners}))
    for _ in range(2):
        assert await jms_app.template.request("price.untold", 1, timeout=0.1) is None
        await jms_app.drained("price.untold")
    warnings = [each.message for each in caplog.records if "gives up a request" in each.message]
    assert len(warnings) == 1
    assert 'errors="reply"' in warnings[0]


async def test_send_interceptors_see_the_reply_that_tells_an_error(jms_app: JmsTestApp) -> None:
    seen: list[tuple[bool, Any]] = []

    async def interceptor(invocation: SendInvocation, proceed: Proceed) -> object:
        seen.append((invocation.is_reply, invocation.message.properties.get("pyjms_error_type")))
        return await proceed()

    await jms_app.start(price, send_interceptors=[interceptor])
    with pytest.raises(RemoteError):
        await jms_app.template.request("price", {"id": 0})
    assert seen == [(False, None), (True, "ValueError")]


async def test_requests_with_headers_raise_the_error_of_a_handler(jms_app: JmsTestApp) -> None:
    await jms_app.start(price)
    messaging = JmsMessagingTemplate(jms_app.template)
    prices = JmsClient(jms_app.template).destination("price")
    with pytest.raises(RemoteError, match="no such order"):
        await messaging.convert_send_and_receive("price", {"id": 0})
    with pytest.raises(RemoteError, match="no such order"):
        await messaging.send_and_receive("price", GenericMessage({"id": 0}))
    with pytest.raises(RemoteError, match="no such order"):
        await prices.send_and_receive({"id": 0})
    assert await prices.send_and_receive({"id": 1}, type=int) == 5


@pytest.mark.parametrize("maximum", [6, -1])
@pytest.mark.parametrize("is_remote", [False, True])
async def test_an_error_whose_requester_is_gone_makes_a_dead_letter(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture, maximum: int, is_remote: bool
) -> None:
    """The connection is not taken for lost, and the message is not redelivered for ever."""
    broker = embedded(jms_app.broker)
    if is_remote:
        jms_app.url = await broker.tcp_url()
    async with await ConnectionFactory(broker.url).create_connection() as requester:
        gone = await (await requester.create_session()).create_temporary_queue()
    redelivery = {"redelivery": {"maximum": maximum}}
    await jms_app.start(price, settings=PyjmsSettings(activemq=redelivery))
    await jms_app.template.convert_and_send("price", {"id": 0}, reply_to=gone)
    await jms_app.drained("price")
    (dead,) = await jms_app.dead_letters()
    assert dead.properties["pyjms_failure_text"] == "no such order"
    assert len(jms_app.recorder.calls(price)) == 1
    assert [r for r in caplog.records if r.name == "pyjms.listener.recovery"] == []


async def test_what_a_handler_sent_before_its_error_reply_is_rolled_back(
    jms_app: JmsTestApp,
) -> None:
    @jms_listener("in", errors="reply")
    async def handler(text: str, template: Annotated[Any, Provide["jms_template"]]) -> str:
        await template.convert_and_send("aside", text)
        raise LookupError(text)

    await jms_app.start(handler)
    with pytest.raises(RemoteError, match="LookupError: x"):
        await jms_app.template.request("in", "x", timeout=5.0)
    assert embedded(jms_app.broker).queue_statistics("aside").enqueues == 0


async def test_a_retry_of_a_listener_that_replies_errors_is_a_redelivery(
    jms_app: JmsTestApp,
) -> None:
    await jms_app.start(price, settings=PyjmsSettings(activemq={"redelivery": {"maximum": 1}}))
    with pytest.raises(RemoteError, match="Retry: later"):  # after the last attempt
        await jms_app.template.request("price", {"id": -1}, timeout=5.0)
    assert len(jms_app.recorder.calls(price)) == 2


@pytest.mark.fact("spring-jms 6.2.8")
async def test_what_can_be_awaited_is_awaited(jms_app: JmsTestApp) -> None:
    """Spring gives futures to the converter, which refuses them; a coroutine is awaited here."""

    async def later(text: str) -> str:
        return text.upper()

    @jms_listener("in")
    @send_to("out")
    def handler(text: str) -> Any:
        return later(text)

    @jms_listener("in.await")
    @send_to("out")
    async def without_await(text: str) -> Any:
        return later(text)

    await jms_app.start(handler, without_await)
    for queue in ("in", "in.await"):
        await jms_app.template.convert_and_send(queue, "x")
        assert await jms_app.template.receive_and_convert("out") == "X"


async def test_send_and_receive_finds_the_answer(jms_app: JmsTestApp) -> None:
    await jms_app.start(echo)
    answer = await jms_app.template.send_and_receive("echo", request("question"))
    assert text_of(answer) == "re:question"


@pytest.mark.fact("spring-jms 6.2.2", "spring-jms 1.1/replyPubSubDomain")
async def test_where_a_name_of_send_to_is(jms_app: JmsTestApp) -> None:
    """A queue or topic as the listener's own name is, unless reply_pub_sub_domain says otherwise."""

    class Container(ApplicationContainer):
        topics = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            pub_sub_domain=True,
        )
        queues = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            pub_sub_domain=True,
            reply_pub_sub_domain=False,
        )

    @jms_listener("topic://in", id="queues", container_factory="queues")
    @jms_listener("topic://in", id="topics", container_factory="topics")
    @send_to("out")
    async def handler(text: str) -> str:
        return text

    heard: list[str] = []

    @jms_listener("topic://out")
    async def listening(text: str) -> None:
        heard.append(text)

    await jms_app.start(handler, listening, container=Container)
    await jms_app.template.convert_and_send(Topic("in"), "x")
    assert await jms_app.template.receive_and_convert("out") == "x"
    await jms_app.recorder.until(lambda calls: len(calls) == 3)
    assert heard == ["x"]
    with pytest.raises(TypeError):
        send_to("one", "two")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        send_to()  # type: ignore[call-arg]


@pytest.mark.fact("spring-jms 6.2.5")
async def test_a_returned_message_of_payload_and_headers(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    @send_to("out")
    async def handler(text: str) -> Any:
        if text == "response":
            return JmsResponse.for_queue(GenericMessage(text, {"n": 2}), "out")
        return GenericMessage({"got": text}, {"n": 1, "jms_type": "t", "jms_correlationId": "no"})

    await jms_app.start(handler)
    await jms_app.template.send("in", request("x", correlation_id="c-1"))
    reply = await jms_app.template.receive("out")
    assert reply is not None
    assert (reply.properties["n"], reply.type, reply.correlation_id) == (1, "t", "c-1")
    assert isinstance(reply, TextMessage)
    assert reply.text == '{"got":"x"}'  # by the container's converter
    assert reply is not None
    assert "timestamp" in reply.properties
    await jms_app.template.send("in", request("response"))
    reply = await jms_app.template.receive("out")
    assert isinstance(reply, TextMessage)
    assert (reply.text, reply.properties["n"]) == ("response", 2)
