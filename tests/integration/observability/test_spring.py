"""What Spring's observations and health indicator have here, and what is another on purpose.

Spring JMS has observations of Micrometer. Here there are spans with the names of OpenTelemetry's
conventions, so the facts are deviations. Spring Boot's indicator (8.1.9) is /health/ready: test_health.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from dependency_injector import providers
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pyjms import ApplicationContainer, JmsApplication, PyjmsSettings, jms_listener
from pyjms.aio import ConnectionFactory, DefaultMessageListenerContainer, JmsTemplate
from pyjms.observability.tracing import OpenTelemetry
from pyjms.testing.app import JmsTestApp
from pyjms_broker import BrokerService

ABSENT = "failover:(tcp://127.0.0.1:1)"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    token = otel_context.attach(otel_context.Context())
    yield InMemorySpanExporter()
    otel_context.detach(token)


@pytest.fixture
def tracers(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


async def start(jms_app: JmsTestApp, tracers: TracerProvider, *handlers: Any) -> JmsTemplate:
    class Container(ApplicationContainer):
        tracer_provider = providers.Object(tracers)

    given = PyjmsSettings.model_validate({"observability": {"tracing": True}})
    await jms_app.start(*handlers, settings=given.with_broker_url(jms_app.url), container=Container)
    return jms_app.template


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {each.name: each for each in exporter.get_finished_spans()}


@pytest.mark.fact("spring-jms 12.1", "spring-jms 12.4")
async def test_each_send_reply_and_handler_call_is_observed_and_waiting_is_not(
    jms_app: JmsTestApp, exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """With other names: `send in` for `jms.message.publish` and `in publish`,
    `process in` for `jms.message.process` and `in process`. The producers of sessions that are used
    directly are not observed; the end of a transaction and the receives of templates are.
    """
    order: list[int] = []

    @jms_listener("in", id="in")
    async def handle(text: str) -> str:
        order.append(len(exporter.get_finished_spans()))
        return text

    template = await start(jms_app, tracers, handle)
    received = await template.send_and_receive("in", lambda s: s.create_text_message("a"))
    await jms_app.drained("in")
    await jms_app.stop()
    names = sorted(each.name for each in exporter.get_finished_spans())
    assert names == ["commit in", "process in", "send (temporary)", "send in"]
    spans = by_name(exporter)
    process, send = spans["process in"], spans["send in"]
    assert process.start_time is not None
    assert send.start_time is not None
    assert process.start_time >= send.start_time  # after the receive: without the waiting for it
    assert received is not None
    assert process.context is not None
    trace_id = f"{process.context.trace_id:032x}"
    assert str(received.properties["traceparent"]).split("-")[1] == trace_id


@pytest.mark.fact("spring-jms 12.2", "spring-jms 12.3")
async def test_attributes_that_are_absent_are_left_out(
    jms_app: JmsTestApp, exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """The same attributes for destination, message id and correlation id, and
    `messaging.operation.name` and `error.type` for `messaging.operation` and `exception`. What is
    unknown, false or did not happen has no attribute, as OpenTelemetry has it; in Spring it is
    "unknown", "false" or "none".
    """

    @jms_listener("in", id="in")
    async def handle(text: str) -> str:
        return text

    template = await start(jms_app, tracers, handle)
    await template.send_and_receive("in", lambda s: s.create_text_message("a"))
    await jms_app.drained("in")
    await jms_app.stop()
    spans = by_name(exporter)
    process, reply = spans["process in"].attributes, spans["send (temporary)"].attributes
    assert process is not None
    assert reply is not None
    assert process["messaging.destination.name"] == "in"
    assert reply["messaging.message.conversation_id"] == process["messaging.message.id"]
    assert reply["messaging.destination.temporary"] is True
    assert reply["messaging.operation.name"] == "send"
    absent = {"messaging.destination.temporary", "messaging.message.conversation_id", "error.type"}
    assert not absent & process.keys()


@pytest.mark.fact("spring-jms 12.5")
async def test_the_error_of_a_handler_is_recorded_although_an_error_handler_takes_it(
    jms_app: JmsTestApp, exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """A handler that has failed is a failed span, whatever an error handler does. In
    Spring the observation has no error then.
    """
    handled: list[Exception] = []
    ended = anyio.Event()

    @jms_listener("in", id="in")
    async def handle(text: str) -> None:
        raise LookupError(text)

    def on_error(error: Exception) -> None:
        handled.append(error)
        ended.set()

    await start(jms_app, tracers, handle)
    jms_app.application.registry["in"].error_handler = on_error
    await jms_app.template.convert_and_send("in", "a")
    with anyio.fail_after(20):
        await ended.wait()
    span = by_name(exporter)["process in"]
    assert isinstance(handled[0].__cause__, LookupError)
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "LookupError"


@pytest.mark.fact("spring-jms 1.1/observationRegistry")
async def test_a_container_alone_is_observed_by_what_it_is_given(
    jms_app: JmsTestApp, exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """Without the interceptor nothing is observed."""
    telemetry = OpenTelemetry(tracers, metrics=False)
    factory = ConnectionFactory(jms_app.url)
    template = JmsTemplate(factory)
    for observed in (False, True):
        called = anyio.Event()

        async def handle(message: object, called: anyio.Event = called) -> None:
            called.set()

        container = DefaultMessageListenerContainer(
            factory, destination_name="alone", message_listener=handle
        )
        if observed:
            container.interceptors = [telemetry.handler(container)]
        await container.start()
        await template.convert_and_send("alone", "a")
        with anyio.fail_after(20):
            await called.wait()
        await container.shutdown()
        assert list(by_name(exporter)) == (["process alone"] if observed else [])


async def test_health_is_that_of_the_listeners_connections() -> None:
    """Without a probe (`application.probe`, /health/ready) no connection is opened: the
    connections of the listeners are what counts, and a broker that is away makes the application
    not ready. `health.probe_timeout` is `management.health.jms.start-timeout`, and
    `probe_timeout: null` is `management.health.jms.enabled: false`.
    """

    @jms_listener("in", id="in")
    async def handle(text: str) -> None: ...

    async with BrokerService("watched", persistent=False) as broker:
        given = PyjmsSettings().with_broker_url(f"{broker.vm_uri}?create=false")
        application = JmsApplication(handle, settings=given)
        await application.start()
        view = broker.management.view("org.apache.activemq:type=Broker,brokerName=watched")
        before = view.get("TotalConnectionsCount")
        answers = [application.health().ready for _ in range(3)]
        assert view.get("TotalConnectionsCount") == before
    assert answers == [True] * 3
    with anyio.fail_after(20):
        while application.health().ready:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert application.health().reasons == ("listener in: no_consumer",)
    await application.stop()
    async with JmsApplication(settings=PyjmsSettings().with_broker_url(ABSENT)) as without:
        assert without.health().ready  # nobody was asked
