"""A trace from a Java client continues through our handler and, with the reply, back to the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio.to_thread
import pytest
from dependency_injector import providers
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyjms import ApplicationContainer, JmsApplication, PyjmsSettings, jms_listener
from tests.kit.servers.java_client import Java

pytestmark = pytest.mark.activemq

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    token = otel_context.attach(otel_context.Context())
    yield InMemorySpanExporter()
    otel_context.detach(token)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_the_trace_of_a_java_client_goes_through_the_handler_and_back(
    java: Java, name: str, exporter: InMemorySpanExporter, kind: str
) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    class Container(ApplicationContainer):
        tracer_provider = providers.Object(tracers)

    def in_thread(text: str) -> str:
        return f"re: {text}"

    async def on_the_loop(text: str) -> str:
        return f"re: {text}"

    chosen: Any = in_thread if kind == "def" else on_the_loop
    given = PyjmsSettings.model_validate({"observability": {"tracing": True}})
    async with JmsApplication(
        jms_listener(name)(chosen),
        settings=given.with_broker_url(java.url),
        container=Container,
    ):
        reply = await anyio.to_thread.run_sync(
            java, "traced-request", name, f"traceparent=00-{TRACE}-{PARENT}-01", "tracestate=shop=7"
        )
    spans = {span.name: span for span in exporter.get_finished_spans()}
    process, send = spans[f"process {name}"], spans["send (temporary)"]
    assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
    assert process.parent is not None
    assert process.context is not None
    assert send.parent is not None
    assert send.context is not None
    assert f"{process.parent.span_id:016x}" == PARENT
    assert send.parent.span_id == process.context.span_id
    assert reply["body"] == ["text", "re: from Java"]
    assert reply["properties"]["traceparent"] == [
        "String",
        f"00-{TRACE}-{send.context.span_id:016x}-01",
    ]
    assert reply["properties"]["tracestate"] == ["String", "shop=7"]
