"""OpenTelemetry: spans, propagation, baggage and metrics, on the broker in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from dependency_injector import providers
from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from pyjms import ApplicationContainer, PyjmsSettings, jms_listener
from pyjms.aio import ConnectionFactory, JmsTemplate, SingleConnectionFactory
from pyjms.client.factory import ConnectionFactory as ClientFactory
from pyjms.observability.instrumentation import server_of
from pyjms.testing.app import JmsTestApp, with_redelivery_delay


class Telemetry:
    """Spans and metrics of one test, and the container that records there."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider([self.reader])
        self.tracer = tracers.get_tracer("test")

        class Container(ApplicationContainer):
            tracer_provider = providers.Object(tracers)
            meter_provider = providers.Object(meters)

        self.container = Container

    def spans(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.exporter.get_finished_spans() if each.name == name]

    def span(self, name: str) -> ReadableSpan:
        found = self.spans(name)
        assert len(found) == 1, [each.name for each in self.exporter.get_finished_spans()]
        return found[0]

    def metrics(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            (dict(point.attributes or {}), point)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    token = otel_context.attach(otel_context.Context())
    yield Telemetry()
    otel_context.detach(token)


def settings(jms_app: JmsTestApp, **observability: bool) -> PyjmsSettings:
    given = {"observability": observability}
    url = with_redelivery_delay(jms_app.url, 0)
    return PyjmsSettings.model_validate(given).with_broker_url(url)


async def start(
    jms_app: JmsTestApp, telemetry: Telemetry, *handlers: Any, tracing: bool = True, **more: bool
) -> JmsTemplate:
    await jms_app.start(
        *handlers,
        settings=settings(jms_app, tracing=tracing, **more),
        container=telemetry.container,
    )
    return jms_app.template


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_trace_goes_from_the_sender_through_handler_commit_and_reply(
    jms_app: JmsTestApp, telemetry: Telemetry, kind: str
) -> None:
    current: list[int] = []

    def in_thread(text: str) -> str:
        current.append(trace.get_current_span().get_span_context().span_id)
        return text.upper()

    async def on_loop(text: str) -> str:
        return in_thread(text)

    handler = jms_listener("orders.new", id="orders")(in_thread if kind == "def" else on_loop)
    template = await start(jms_app, telemetry, handler)
    with telemetry.tracer.start_as_current_span("order"):
        reply = await template.send_and_receive(
            "orders.new", lambda session: session.create_text_message("a")
        )
    assert reply is not None
    await jms_app.drained("orders.new")
    with anyio.fail_after(10):
        while not telemetry.spans("commit orders.new"):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    root = telemetry.span("order")
    send, process = telemetry.span("send orders.new"), telemetry.span("process orders.new")
    commit, answer = telemetry.span("commit orders.new"), telemetry.span("send (temporary)")
    spans = [send, process, commit, answer]
    assert [each.kind for each in spans] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.CLIENT,
        SpanKind.PRODUCER,
    ]
    assert [parent_of(each) for each in spans] == [
        id_of(root),
        id_of(send),
        id_of(process),
        id_of(process),
    ]
    assert {each.context.trace_id for each in spans if each.context} == {root.context.trace_id}
    assert current == [id_of(process)]
    assert dict(process.attributes or {}) == {
        "messaging.system": "activemq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders.new",
        "messaging.message.id": (send.attributes or {})["messaging.message.id"],
    }
    assert (commit.attributes or {})["messaging.operation.type"] == "settle"
    assert (answer.attributes or {})["messaging.destination.temporary"] is True
    assert (answer.attributes or {})["messaging.message.conversation_id"]


async def test_a_failing_handler_has_an_error_without_the_message_s_values(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    @jms_listener("in")
    async def handle(order: int) -> None: ...

    template = await start(jms_app, telemetry, handle)
    await template.convert_and_send("in", "a secret text")
    await jms_app.drained("in")
    span = telemetry.span("process in")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"]
    (event,) = span.events
    assert "secret" not in repr(event.attributes) + repr(span.status.description)


async def test_each_attempt_of_a_failing_handler_has_its_span(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    @jms_listener("in")
    def handle(text: str) -> None:
        raise LookupError("no customer")

    template = await start(jms_app, telemetry, handle)
    await template.convert_and_send("in", "a")
    await jms_app.drained("in")
    spans = telemetry.spans("process in")
    assert len(spans) == 7
    assert {(each.attributes or {})["error.type"] for each in spans} == {"LookupError"}
    assert {each.status.description for each in spans} == {"no customer"}
    assert telemetry.spans("commit in") == []
    rollbacks = telemetry.spans("rollback in")
    assert [parent_of(each) for each in rollbacks] == [id_of(each) for each in spans]


async def test_baggage_arrives_and_is_that_of_the_message_alone(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    seen: list[dict[str, object]] = []

    @jms_listener("in")
    async def handle(text: str) -> None:
        seen.append(dict(baggage.get_all()))
        otel_context.attach(baggage.set_baggage("own", "x"))

    template = await start(jms_app, telemetry, handle)
    token = otel_context.attach(baggage.set_baggage("tenant", "acme, inc"))
    await template.convert_and_send("in", "a")
    otel_context.detach(token)
    await jms_app.drained("in")
    await template.convert_and_send("in", "b")
    await jms_app.drained("in")
    assert seen == [{"tenant": "acme, inc"}, {}]


async def test_a_batch_is_linked_to_all_its_senders(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    sizes: list[int] = []

    @jms_listener("in", id="batches", batch_size=3, auto_startup=False)
    async def handle(texts: list[str]) -> None:
        sizes.append(len(texts))

    template = await start(jms_app, telemetry, handle, metrics=True)
    for text in ("a", "b", "c"):
        await template.convert_and_send("in", text)
    await jms_app.application.registry["batches"].start()
    await jms_app.drained("in")
    assert sizes == [3]
    process = telemetry.span("process in")
    senders = [id_of(each) for each in telemetry.spans("send in")]
    assert [link.context.span_id for link in process.links] == senders
    assert process.parent is None
    assert (process.attributes or {})["messaging.batch.message_count"] == 3
    ((_, consumed),) = telemetry.metrics("messaging.client.consumed.messages")
    assert consumed.value == 3


async def test_receives_of_a_template_are_linked_to_the_sender(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    template = await start(jms_app, telemetry, metrics=True)
    await template.convert_and_send("q", "a")
    assert await template.receive_and_convert("q") == "a"
    assert await template.receive("q", timeout=0) is None
    send = telemetry.span("send q")
    full, empty = telemetry.spans("receive q")
    assert [link.context.span_id for link in full.links] == [id_of(send)]
    assert (full.attributes or {})["messaging.batch.message_count"] == 1
    assert (empty.attributes or {})["messaging.batch.message_count"] == 0
    assert full.kind is SpanKind.CLIENT
    ((_, consumed),) = telemetry.metrics("messaging.client.consumed.messages")
    assert consumed.value == 1


async def test_a_foreign_trace_and_a_vendor_s_state_go_through(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    """A sender without pyjms sets W3C's headers as properties."""
    seen: list[dict[str, object]] = []

    @jms_listener("in")
    async def handle(text: str) -> None:
        await jms_app.application.template.convert_and_send("out", text)

    template = await start(jms_app, telemetry, handle)
    plain = JmsTemplate(ConnectionFactory(jms_app.url), receive_timeout=5)
    ids = f"00-{'a' * 32}-{'b' * 16}-01"
    given = {"traceparent": ids, "tracestate": "vendor=1", "baggage": "k=v"}
    await plain.convert_and_send("in", "a", properties=given)
    message = await plain.receive("out")
    assert message is not None
    seen.append(dict(message.properties))
    process, send = telemetry.span("process in"), telemetry.span("send out")
    assert parent_of(process) == int("b" * 16, 16)
    assert seen == [
        {
            "traceparent": f"00-{'a' * 32}-{id_of(send):016x}-01",
            "tracestate": "vendor=1",
            "baggage": "k=v",
        }
    ]
    assert template.send_interceptors


async def test_a_damaged_traceparent_begins_a_trace(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    handled: list[str] = []

    @jms_listener("in")
    async def handle(text: str) -> None:
        handled.append(text)

    await start(jms_app, telemetry, handle)
    plain = JmsTemplate(ConnectionFactory(jms_app.url))
    for value in ("nonsense", 7, f"00-{'0' * 32}-{'b' * 16}-01"):
        await plain.convert_and_send("in", "a", properties={"traceparent": value})
    await jms_app.drained("in")
    assert handled == ["a"] * 3
    assert [parent_of(each) for each in telemetry.spans("process in")] == [None] * 3


async def test_metrics_of_the_conventions(jms_app: JmsTestApp, telemetry: Telemetry) -> None:
    @jms_listener("in")
    def handle(text: str) -> None:
        if text == "bad":
            raise ValueError(text)

    template = await start(jms_app, telemetry, handle, tracing=False, metrics=True)
    await template.convert_and_send("in", "a")
    await template.convert_and_send("in", "bad")
    await jms_app.drained("in")
    await jms_app.stop()
    assert telemetry.exporter.get_finished_spans() == ()
    ((attributes, sent),) = telemetry.metrics("messaging.client.sent.messages")
    assert sent.value == 2
    assert attributes["messaging.destination.name"] == "in"
    ((_, consumed),) = telemetry.metrics("messaging.client.consumed.messages")
    assert consumed.value == 8
    by_error = {
        attributes.get("error.type"): point.count
        for attributes, point in telemetry.metrics("messaging.process.duration")
    }
    assert by_error == {None: 1, "ValueError": 7}
    operations = {
        attributes["messaging.operation.name"]: point.count
        for attributes, point in telemetry.metrics("messaging.client.operation.duration")
    }
    assert operations == {"send": 2, "commit": 1, "rollback": 7}
    assert not any(
        "messaging.message.id" in each
        for each, _ in telemetry.metrics("messaging.process.duration")
    )


async def test_nothing_surrounds_anything_while_it_is_off(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="in")
    async def handle(text: str) -> None: ...

    await jms_app.start(handle)
    container = jms_app.application.registry["in"]
    assert not container.settlement_chain
    assert not container.interceptor_chain
    assert not jms_app.application.template.send_chain
    assert jms_app.application.template.receive_interceptors == ()


async def test_a_template_of_another_container_is_observed_too(
    jms_app: JmsTestApp, telemetry: Telemetry
) -> None:
    factory = SingleConnectionFactory(ConnectionFactory(jms_app.url))

    class Container(telemetry.container):  # type: ignore[name-defined, misc]
        jms_template = providers.Singleton(JmsTemplate, factory)

    await jms_app.start(settings=settings(jms_app, tracing=True), container=Container)
    await jms_app.application.template.convert_and_send("q", "a")
    assert telemetry.span("send q")
    await factory.destroy()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("tcp://mq.example:61617", ("mq.example", 61617)),
        ("ssl://mq.example", ("mq.example", 61616)),
        ("failover:(tcp://mq.example:1)", ("mq.example", 1)),
        ("failover:(tcp://a:1,tcp://b:2)", None),
        ("vm://localhost", None),
    ],
)
def test_the_address_of_a_broker(url: str, expected: object) -> None:
    factory = ClientFactory(url)
    assert server_of(factory) == expected
    assert server_of(SingleConnectionFactory(factory)) == expected
