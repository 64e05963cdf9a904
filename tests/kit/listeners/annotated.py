"""The listeners of the recorded scenario `annotated-listener`, replayed on any broker.

`replay` returns what the recording has, under the same names. Left out is what depends on Java:
texts of its exceptions, the ids that Spring generates. Where pyjms decided otherwise,
`DECIDED_OTHERWISE` says so.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    BytesMessage,
    GenericMessage,
    Header,
    Headers,
    JmsApplication,
    JMSException,
    JmsResponse,
    MapMessage,
    Message,
    PyjmsSettings,
    Queue,
    SimpleMessageConverter,
    TextMessage,
    Topic,
    jms_listener,
    send_to,
)
from pyjms.aio import JmsTemplate, Session
from tests.kit.waiting import until

DECIDED_OTHERWISE: Final = {
    "CompletableFuture result (not awaited)": "what can be awaited is awaited",
    "text 'not a number' to an int parameter": "a message that cannot be read is an error of its "
    "own, and becomes a dead letter at once",
    "missing required @Header": "the same",
}
REPLY_KEYS: Final = (
    "type", "text", "JMSDestination", "JMSDeliveryMode", "JMSPriority", "JMSExpiration",
    "JMSRedelivered", "JMSXDeliveryCount", "JMSReplyTo", "hasCorrelationID",
    "originalDestination", "correlation", "JMSType", "body", "bodyLength",
)  # fmt: skip
SENT_BY_SPRING_ONLY: Final = {"timestamp", "id"}
"""Headers of every message of spring-messaging; here only a returned GenericMessage has them."""


class Container(ApplicationContainer):
    message_converter = providers.Singleton(SimpleMessageConverter)  # Spring's default


class Listeners:
    """The endpoints; names begin with `${app.prefix}`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.arguments: dict[str, Any] = {}
        self.numbers: list[int] = []
        self.multi: list[str] = []

    @jms_listener("${app.prefix}echo", id="echo", concurrency="${app.range:2-3}")
    async def echo(self, text: str) -> str:
        return f"re:{text}"

    @jms_listener("${app.prefix}sendto")
    @send_to("${app.prefix}sendto.out")
    def sendto(self, text: str) -> str:
        return f"to:{text}"

    @jms_listener("${app.prefix}response")
    @send_to("${app.prefix}never")
    async def response(self, text: str) -> JmsResponse:
        return JmsResponse.for_queue(f"jr:{text}", f"{self.prefix}response.out")

    @jms_listener("${app.prefix}message")
    @send_to("${app.prefix}message.out")
    async def message(self, text: str) -> Any:
        headers = {"code": 7, "jms_type": "T1", "jms_correlationId": "overwritten"}
        return GenericMessage(f"msg:{text}", headers)

    @jms_listener("${app.prefix}map")
    @send_to("${app.prefix}map.out")
    def map(self, text: str) -> Any:
        return {"k": text, "n": 7}

    @jms_listener("${app.prefix}bytes")
    @send_to("${app.prefix}bytes.out")
    async def bytes(self, text: str) -> bytes:
        return text[:4].encode()

    @jms_listener("${app.prefix}none")
    @send_to("${app.prefix}none.out")
    async def none(self, text: str) -> None: ...

    @jms_listener("${app.prefix}nowhere", id="nowhere")
    async def nowhere(self, text: str) -> str:
        return text

    @jms_listener("${app.prefix}arguments")
    async def argument_resolution(
        self,
        raw: Message,
        session: Session,
        body: str,
        colour: Annotated[str, Header()],
        missing: Annotated[str | None, Header()],
        count: Annotated[int, Header()],
        message_id: Annotated[str, Header("jms_messageId")],
        everything: Annotated[dict[str, Any], Headers()],
        generic: GenericMessage[str],
    ) -> None:
        self.arguments = {
            "raw": kind_of(raw),
            "session.transacted": session.transacted,
            "body": body,
            "colour": colour,
            "missing": missing,
            "count": count,
            "id equals JMSMessageID": message_id == raw.message_id,
            "headerNames": sorted(everything),
            "jms_priority": everything["jms_priority"],
            "jms_deliveryMode": int(everything["jms_deliveryMode"]),
            "jms_destination type": isinstance(everything["jms_destination"], Queue),
            "accessor.priority": generic.headers["jms_priority"],
            "payload": generic.payload,
        }

    @jms_listener("${app.prefix}number")
    async def number(self, number: int) -> None:
        self.numbers.append(number)

    @jms_listener("${app.prefix}jms", id="jms")
    async def jms(self, text: str) -> None:
        raise JMSException("from method")

    @jms_listener("${app.prefix}multi.one", id="one")
    @jms_listener("${app.prefix}multi.two", id="two", selector="colour = 'red'")
    async def repeated(self, text: str) -> None:
        self.multi.append(text)


def kind_of(message: Message) -> str:
    kinds = (TextMessage, BytesMessage, MapMessage)
    return next(kind.__name__ for kind in kinds if isinstance(message, kind))


def request(text: str, **headers: Any) -> Any:
    def create(session: Session) -> Message:
        message = session.create_text_message(text)
        for name, value in headers.pop("properties", {}).items():
            message.properties[name] = value
        for name, value in headers.items():
            setattr(message, name, value)
        return message

    return create


class Replay:
    """Sends requests and describes the replies as the recording does."""

    def __init__(self, template: JmsTemplate, prefix: str) -> None:
        self.template = template
        self.prefix = prefix

    async def ask(self, queue: str, text: str, reply: str, **headers: Any) -> dict[str, Any]:
        sent: list[Message] = []

        def keep(session: Session) -> Message:
            sent.append(request(text, **headers)(session))
            return sent[0]

        await self.template.send(f"{self.prefix}{queue}", keep)
        answer: Any = await self.template.receive(f"{self.prefix}{reply}")
        own = sent[0].message_id
        found: dict[str, Any] = {
            "type": kind_of(answer),
            "JMSDestination": str(answer.destination).replace(self.prefix, ""),
            "JMSDeliveryMode": int(answer.delivery_mode),
            "JMSPriority": answer.priority,
            "JMSExpiration": answer.expiration,
            "JMSRedelivered": answer.redelivered,
            "JMSXDeliveryCount": answer.delivery_count,
            "JMSReplyTo": answer.reply_to,
            "hasCorrelationID": answer.correlation_id is not None,
            "originalDestination": answer.original_destination,
            "propertyNames": sorted(set(answer.properties) - SENT_BY_SPRING_ONLY),
            "correlation": (
                "request JMSMessageID" if answer.correlation_id == own else answer.correlation_id
            ),
            "JMSType": answer.type,
        }
        if isinstance(answer, TextMessage):
            found["text"] = answer.text
        elif isinstance(answer, BytesMessage):
            found["bodyLength"] = len(answer.data)
        elif isinstance(answer, MapMessage):
            found["body"] = await SimpleConversion.of(answer)
        return found


class SimpleConversion:
    @staticmethod
    async def of(message: MapMessage) -> dict[str, Any]:
        found: dict[str, Any] = SimpleMessageConverter().from_message(message)
        return found


async def replay(url: str, prefix: str) -> dict[str, Any]:
    """Run the listeners at a broker with a redelivery delay of nothing; return what happened."""
    listeners = Listeners(prefix)
    settings = PyjmsSettings.model_validate({"app": {"prefix": prefix}}).with_broker_url(url)
    errors: dict[str, list[Any]] = {}
    application = JmsApplication(
        listeners,
        settings=settings,
        container=Container,
        error_handler=lambda error: errors.setdefault(error.listener_id, []).append(error),  # type: ignore[attr-defined]
    )
    async with application:
        template = JmsTemplate(application.template.connection_factory, receive_timeout=20.0)
        return await _results(Replay(template, prefix), listeners, application, errors)


async def _results(
    run: Replay, listeners: Listeners, application: JmsApplication, errors: dict[str, list[Any]]
) -> dict[str, Any]:
    template, prefix = run.template, run.prefix
    replies = Queue(f"{prefix}replies")
    found: dict[str, Any] = {
        "JMSReplyTo, no correlation id": await run.ask("echo", "one", "replies", reply_to=replies),
        "JMSReplyTo and correlation id": await run.ask(
            "echo", "two", "replies", reply_to=replies, correlation_id="corr-2"
        ),
        "@SendTo, no JMSReplyTo": await run.ask(
            "sendto", "four", "sendto.out", correlation_id="c4"
        ),
        "JmsResponse.forQueue wins over JMSReplyTo and @SendTo": await run.ask(
            "response", "six", "response.out", reply_to=replies, correlation_id="c6"
        ),
        "Message<String> with headers": await run.ask(
            "message", "seven", "message.out", correlation_id="c7"
        ),
        "Map result": await run.ask("map", "eight", "map.out", correlation_id="c8"),
        "byte[] result": await run.ask("bytes", "nine", "bytes.out", correlation_id="c9"),
    }
    await template.send(f"{prefix}sendto", request("five", reply_to=replies))
    reply: Any = await template.receive(replies)
    found["@SendTo and JMSReplyTo: reply goes to"] = "JMSReplyTo" if reply.text == "to:five" else ""
    await template.send(f"{prefix}echo", request("three", reply_to=Topic(f"{prefix}topic")))
    await template.send(f"{prefix}none", request("ten", reply_to=replies))
    await template.send(
        f"{prefix}arguments",
        request("thirteen", properties={"colour": "blue", "count": "42"}),
    )
    await template.convert_and_send(f"{prefix}number", "17")
    for name in ("nowhere", "jms"):
        await template.convert_and_send(f"{prefix}{name}", "eleven")
    await template.convert_and_send(f"{prefix}multi.one", "m1")
    for colour in ("blue", "red"):
        await template.convert_and_send(f"{prefix}multi.two", colour, properties={"colour": colour})
    await until(
        lambda: (
            len(listeners.multi) == 2
            and len(errors.get("jms", ())) == 7
            and listeners.numbers
            and listeners.arguments
        )
    )
    found["reply to a topic raises no error"] = "echo" not in errors
    found["null result: reply"] = await template.receive(replies, timeout=0.5)
    found["argument resolution"] = listeners.arguments
    found["text '17' to an int parameter"] = {"int": listeners.numbers[0]}
    found["nowhere"] = errors.get("nowhere", [])
    found["jms"] = errors["jms"]
    await application.registry["two"].stop()
    found["repeated annotation with a selector"] = {
        "received": sorted(listeners.multi),
        "leftIn multi.two": [
            await template.with_receive_timeout(5.0).receive_and_convert(f"{prefix}multi.two")
        ],
    }
    found["containers"] = len(application.registry)
    found["concurrency"] = application.registry["echo"].concurrency
    return found


def check(found: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Compare a replay with the recording; return the names of the compared items."""
    compared: list[str] = []
    for name, wanted in recorded.items():
        if name in DECIDED_OTHERWISE:
            continue
        compared.append(name)
        if name == "registry":
            assert found["concurrency"] == wanted["concurrencyFromPlaceholder"]
        elif name.startswith("result but no JMSReplyTo"):
            assert wanted["errors"] == 7  # a deviation: dropped with a warning (spring-jms 6.2.2)
            assert found["nowhere"] == []
        elif name == "method throws JMSException":
            (first, *_) = found["jms"]
            assert wanted == (
                f"{type(first).__name__} <- {type(first.__cause__).__name__} :: {first.__cause__}"
            )
        elif name == "argument resolution":
            mine = dict(found[name])
            names = set(wanted["headerNames"]) - SENT_BY_SPRING_ONLY
            assert names <= set(mine.pop("headerNames"))
            assert mine == {k: v for k, v in wanted.items() if k in mine}
        elif isinstance(wanted, dict) and "JMSDestination" in wanted:
            mine = found[name]
            for key in wanted.keys() & set(REPLY_KEYS):
                assert mine[key] == wanted[key], (name, key)
            properties = sorted(set(wanted["propertyNames"]) - SENT_BY_SPRING_ONLY)
            assert mine["propertyNames"] == properties, name
        else:
            assert found[name] == wanted, name
    return compared
