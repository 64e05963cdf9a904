"""What handlers are called with, over the real broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide, inject
from pydantic import BaseModel, Field

import pyjms
from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    Destination,
    GenericMessage,
    Header,
    Headers,
    JmsTemplate,
    MapMessage,
    Message,
    MessageConversionException,
    Payload,
    Queue,
    TextMessage,
    jms_listener,
)
from pyjms.aio import Session
from pyjms.listener.properties import ErrorHandler
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of
from tests.kit.clients.queues import embedded


class Order(BaseModel):
    number: int
    text: str = ""


class Positive(BaseModel):
    amount: Annotated[int, Field(gt=0)]


@dataclass
class Point:
    x: int
    y: int


async def handle(app: JmsTestApp, handler: Any, *payloads: object, **properties: Any) -> list[Any]:
    """Start the handler on `in`, send the payloads, return the errors of its calls."""

    def set_properties(message: Message) -> Message:
        message.correlation_id = properties.pop("correlation_id", message.correlation_id)
        for name, value in properties.items():
            message.properties[name] = value
        return message

    await app.start(handler)
    for payload in payloads:
        await app.template.convert_and_send("in", payload, post_processor=set_properties)
    await app.drained("in")
    return [call.error for call in app.recorder.calls(handler)]


@pytest.mark.fact("spring-jms 6.1.1")
@pytest.mark.parametrize("hint", [None, object, Any])
async def test_no_annotation_object_and_any_take_the_converted_payload(
    jms_app: JmsTestApp, hint: Any
) -> None:
    got: list[object] = []

    async def handler(body) -> None:  # type: ignore[no-untyped-def]  # that is the point  # noqa: ANN001
        got.append(body)

    if hint is not None:
        handler.__annotations__["body"] = hint
    marked = jms_listener("in")(handler)
    assert await handle(jms_app, marked, "text", {"n": 1}, b"bytes") == [None] * 3
    assert got == ["text", {"n": 1}, b"bytes"]


async def test_plain_defaults_are_kept(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in")
    def handler(text: str, who: str = "nobody", *, retries: int = 3, odd: object = ()) -> None:
        got.append((text, who, retries, odd))

    assert await handle(jms_app, handler, "the body") == [None]
    assert got == [("the body", "nobody", 3, ())]


async def test_a_first_parameters_default_stands_in_for_an_empty_payload(
    jms_app: JmsTestApp,
) -> None:
    got: list[object] = []

    @jms_listener("in")
    async def handler(text: str = "nothing", who: str = "nobody") -> None:
        got.append((text, who))

    assert await handle(jms_app, handler, "the body", "") == [None] * 2
    assert got == [("the body", "nobody"), ("nothing", "nobody")]


async def test_marks_as_defaults_are_marks(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in")
    def handler(
        who: str = "nobody",
        region: str = Header("area"),  # type: ignore[assignment]
        absent: str = Header("absent", default="d"),  # type: ignore[assignment]
        number: int = Header,  # type: ignore[assignment]
        everything: dict[str, object] = Headers(),  # type: ignore[assignment]  # noqa: B008
        body: str | None = Payload(required=False),  # type: ignore[assignment]
    ) -> None:
        got.append((who, region, absent, number, everything["area"], body))

    assert await handle(jms_app, handler, "the body", area="eu", number="12") == [None]
    assert got == [("nobody", "eu", "d", 12, "eu", "the body")]


@pytest.mark.fact("spring-jms 6.1.3")
@pytest.mark.parametrize(
    ("hint", "payload", "value"),
    [
        (int, "17", 17),
        (float, "1.5", 1.5),
        (Order, {"number": 7, "text": "x"}, Order(number=7, text="x")),
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (str | None, "  ", None),
        (Annotated[str, Payload(required=False)], "", None),
        (bytes, b"raw", b"raw"),
    ],
)
async def test_a_payload_becomes_what_the_parameter_says(
    jms_app: JmsTestApp, hint: Any, payload: Any, value: Any
) -> None:
    got: list[object] = []

    async def handler(body) -> None:  # type: ignore[no-untyped-def]  # that is the point  # noqa: ANN001
        got.append(body)

    handler.__annotations__["body"] = hint
    assert await handle(jms_app, jms_listener("in")(handler), payload) == [None]
    assert got == [value]


@pytest.mark.fact("spring-jms 6.1.3")
@pytest.mark.parametrize("body", ["", "  ", b""])
async def test_an_empty_payload_is_refused_by_a_plain_parameter(
    jms_app: JmsTestApp, body: str | bytes
) -> None:
    @jms_listener("in")
    async def handler(body: str) -> None:
        raise AssertionError("never called")

    (error, *_) = await handle(jms_app, handler, body)
    assert isinstance(error, MessageConversionException)
    assert "Payload value must not be empty" in str(error)


@pytest.mark.fact("spring-jms 6.1.3")
async def test_a_payload_that_does_not_fit_ends_in_the_dead_letter_queue(
    jms_app: JmsTestApp,
) -> None:
    @jms_listener("in", id="numbers")
    async def handler(number: int) -> None:
        raise AssertionError("never called")

    errors = await handle(jms_app, handler, "seventeen")
    assert all(isinstance(error, MessageConversionException) for error in errors)
    assert "unable to parse" in str(errors[0])
    (dead,) = await jms_app.dead_letters()
    assert isinstance(dead, TextMessage)
    assert dead.text == "seventeen"


@pytest.mark.fact("spring-jms 6.1.6")
async def test_raw_messages_are_taken_without_converting(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    class NeverRead:
        def to_message(self, payload: Any, session: Session) -> Message:
            return session.create_text_message(payload)

        def from_message(self, message: Message, target: Any = None) -> Any:
            raise AssertionError("nobody asked for the payload")

    class Container(ApplicationContainer):
        message_converter = providers.Singleton(NeverRead)

    @jms_listener("in")
    async def handler(message: Message, session: Session, text: TextMessage) -> None:
        got.append((message is text, session.transacted, text.text))

    await jms_app.start(handler, container=Container)
    await jms_app.template.convert_and_send("in", "hello")
    await jms_app.drained("in", raise_errors=True)
    assert got == [(True, True, "hello")]


@pytest.mark.fact("spring-jms 6.1.1")
async def test_a_raw_message_of_another_kind_is_a_conversion_error(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def handler(message: MapMessage) -> None:
        raise AssertionError("never called")

    (error, *_) = await handle(jms_app, handler, "text")
    assert isinstance(error, MessageConversionException)
    assert "takes a MapMessage, the message is a ActiveMQTextMessage" in str(error) or (
        "MapMessage" in str(error)
    )


async def test_a_def_handler_gets_a_session_that_blocks(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in")
    def handler(text: str, session: pyjms.Session) -> None:
        with session.create_producer(Queue("out")) as producer:
            producer.send(session.create_text_message(text.upper()))
        got.append(type(session))

    assert await handle(jms_app, handler, "hello") == [None]
    assert got == [pyjms.Session]
    assert await jms_app.template.receive_and_convert("out") == "HELLO"


@pytest.mark.fact("spring-jms 6.1.2")
async def test_headers(jms_app: JmsTestApp) -> None:
    got: dict[str, object] = {}

    @jms_listener("in")
    async def handler(
        text: str,
        correlation: Annotated[str, Header("jms_correlationId")],
        reply_to: Annotated[Destination | None, Header("jms_replyTo")],
        region: Annotated[str, Header()],
        count: Annotated[int, Header("number")],
        absent: Annotated[str | None, Header()],
        optional: Annotated[str, Header(required=False)],
        preset: Annotated[str, Header(default="d")],
        blank: Annotated[str, Header(default="instead")],
        flag: Annotated[bool, Header()],
        everything: Annotated[dict[str, object], Headers()],
        own: Annotated[int, Header()] = 3,
    ) -> None:
        got.update(locals())

    errors = await handle(
        jms_app, handler, "x", correlation_id="c-1", region="eu", number="12", blank=""
    )
    assert errors == [None]
    everything: Any = got.pop("everything")
    got.pop("got", None)
    assert got == {
        "text": "x", "correlation": "c-1", "reply_to": None, "region": "eu", "count": 12,
        "absent": None, "optional": None, "preset": "d", "blank": "instead", "flag": False,
        "own": 3,
    }  # fmt: skip
    assert everything["region"] == "eu"
    assert everything["jms_correlationId"] == "c-1"
    assert "jms_destination" in everything


async def test_headers_by_the_names_of_a_message(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in")
    async def handler(
        text: str,
        correlation_id: Annotated[str, Header()],
        given: Annotated[str, Header("message_id")],
        priority: Annotated[int, Header()],
    ) -> None:
        got.extend([correlation_id, given[:3], priority])

    assert await handle(jms_app, handler, "x", correlation_id="c-1") == [None]
    assert got == ["c-1", "ID:", 4]


@pytest.mark.fact("spring-jms 6.1.2")
async def test_a_missing_header_is_an_error_that_names_it(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def handler(region: Annotated[str, Header()]) -> None:
        raise AssertionError("never called")

    (error, *_) = await handle(jms_app, handler, "x")
    assert isinstance(error, MessageConversionException)
    assert "Missing header 'region' for parameter 'region'" in str(error)


class Service:
    def __init__(self) -> None:
        self.seen: list[object] = []


class Services(ApplicationContainer):
    service = providers.Singleton(Service)


async def test_services_are_injected_with_and_without_inject(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def marked(text: str, service: Annotated[Service, Provide["service"]]) -> None:
        service.seen.append(("marked", text))

    @jms_listener("in")
    @inject
    async def wired(text: str, service: Service = Provide["service"]) -> None:
        service.seen.append(("wired", text))

    @jms_listener("in")
    def threaded(text: str, *, service: Annotated[Service, Provide[Services.service]]) -> None:
        service.seen.append(("threaded", text))

    container = Services
    application = await jms_app.start(marked, wired, threaded, container=container)
    for _ in range(30):
        await jms_app.template.convert_and_send("in", "x")
    await jms_app.drained("in", raise_errors=True)
    seen = application.container.service().seen
    assert {name for name, _ in seen} == {"marked", "wired", "threaded"}
    assert len(seen) == 30
    assert not Services.service().seen


async def test_a_def_handler_gets_the_blocking_template_in_its_transaction(
    jms_app: JmsTestApp,
) -> None:
    kinds: list[object] = []

    @jms_listener("in")
    def handler(text: str, template: Annotated[JmsTemplate, Provide["jms_template"]]) -> None:
        kinds.append(type(template))
        template.convert_and_send("out", text)
        if text == "bad":
            raise ValueError(text)

    await handle(jms_app, handler, "bad", "good")
    assert set(kinds) == {pyjms.JmsTemplate}
    assert await jms_app.template.receive_and_convert("out") == "good"
    assert embedded(jms_app.broker).queue_statistics("out").enqueues == 1
    assert [text_of(m) for m in await jms_app.dead_letters()] == ["bad"]


async def test_what_an_async_handler_sends_is_in_its_transaction(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def handler(text: str, template: Annotated[Any, Provide["jms_template"]]) -> None:
        await template.convert_and_send("out", text)
        if text == "bad":
            raise ValueError(text)

    await handle(jms_app, handler, "bad", "good")
    assert await jms_app.template.receive_and_convert("out") == "good"
    assert embedded(jms_app.broker).queue_statistics("out").enqueues == 1


@pytest.mark.fact("spring-jms 6.1.8")
async def test_failures_are_named_after_what_failed(jms_app: JmsTestApp) -> None:
    seen: list[pyjms.ListenerExecutionFailedException] = []

    class Catching(ApplicationContainer):
        pass

    @jms_listener("in", id="fails")
    async def handler(number: int) -> None:
        raise KeyError(number)

    application = await jms_app.start(handler, container=Catching)
    application.registry["fails"].error_handler = cast("ErrorHandler", seen.append)
    await jms_app.template.convert_and_send("in", "1")
    await jms_app.template.convert_and_send("in", "x")
    await jms_app.drained("in")
    threw = [e for e in seen if "threw exception" in str(e)]
    refused = [e for e in seen if "could not be invoked with incoming message" in str(e)]
    assert (len(threw), len(refused)) == (7, 1)  # what cannot be read is not tried again
    assert isinstance(threw[0].__cause__, KeyError)
    assert isinstance(refused[0].__cause__, MessageConversionException)
    assert {e.listener_id for e in seen} == {"fails"}
    assert {text_of(cast("Message", e.message)) for e in threw} == {"1"}


@pytest.mark.fact("spring-jms 6.1.4")
async def test_what_a_type_demands_is_validated(jms_app: JmsTestApp) -> None:
    """Spring needs @Valid and a validator; here the type says it."""

    got: list[int] = []

    @jms_listener("in")
    async def handler(order: Positive, limit: Annotated[int, Field(le=5), Header()]) -> None:
        got.append(order.amount * limit)

    @jms_listener("numbers")
    async def numbers(number: Annotated[int, Field(gt=3)]) -> None:
        got.append(number)

    await jms_app.start(handler, numbers)
    for amount, limit in ((2, 3), (0, 3), (2, 6)):
        await jms_app.template.convert_and_send(
            "in", {"amount": amount}, properties={"limit": limit}
        )
    await jms_app.drained("in")
    for text in ("4", "2"):
        await jms_app.template.convert_and_send("numbers", text)
    await jms_app.drained("numbers")
    assert got == [6, 4]
    texts = [str(d.properties["pyjms_failure_text"]) for d in await jms_app.dead_letters()]
    for text, words in zip(
        texts,
        ("greater than 0", "less than or equal to 5", "greater than 3"),
        strict=True,
    ):
        assert words in text


@pytest.mark.fact("spring-jms 6.1.5")
async def test_a_generic_message_has_payload_and_headers(jms_app: JmsTestApp) -> None:
    got: list[GenericMessage[Any]] = []

    @jms_listener("in")
    async def typed(message: GenericMessage[Order], plain: GenericMessage[Any]) -> None:
        got.extend([message, plain])

    errors = await handle(jms_app, typed, {"number": 7}, region="eu", correlation_id="c-1")
    assert errors == [None]
    message, plain = got
    assert (message.payload, plain.payload) == (Order(number=7), {"number": 7})
    assert (message.headers["region"], message.headers["jms_correlationId"]) == ("eu", "c-1")


async def test_a_generic_message_s_payload_must_fit(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def handler(message: GenericMessage[int]) -> None:
        raise AssertionError("never called")

    (error, *_) = await handle(jms_app, handler, "x")
    assert isinstance(error, MessageConversionException)


@pytest.mark.fact("spring-jms 6.1.7")
async def test_all_parameters_marked_as_payload_get_it(jms_app: JmsTestApp) -> None:
    """Spring does so without marks; here a second one without a mark is an error of the start."""
    got: list[object] = []

    @jms_listener("in")
    async def handler(
        order: Annotated[Order, Payload()], raw: Annotated[dict[str, Any], Payload()]
    ) -> None:
        got.extend([order, raw])

    assert await handle(jms_app, handler, {"number": 7, "text": "x"}) == [None]
    assert got == [Order(number=7, text="x"), {"number": 7, "text": "x"}]
    await jms_app.stop()

    @jms_listener("in")
    async def unmarked(order: Order, raw: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigurationException, match="the payload is 'order'"):
        await jms_app.start(unmarked)


@pytest.mark.fact("spring-jms 5.2.5")
async def test_the_parameter_s_type_is_made_of_what_the_converter_returns(
    jms_app: JmsTestApp,
) -> None:
    """A converter may ignore the type that is requested, as Spring's do."""

    class Plain:
        def to_message(self, payload: Any, session: Session) -> Message:
            return session.create_text_message(payload)

        def from_message(self, message: Message, target: Any = None) -> Any:
            return {"number": len(text_of(message) or "")}

    class Container(ApplicationContainer):
        message_converter = providers.Singleton(Plain)

    got: list[Order] = []

    @jms_listener("in")
    async def handler(order: Order) -> None:
        got.append(order)

    await jms_app.start(handler, container=Container)
    await jms_app.template.convert_and_send("in", "seven..")
    await jms_app.drained("in", raise_errors=True)
    assert got == [Order(number=7)]
