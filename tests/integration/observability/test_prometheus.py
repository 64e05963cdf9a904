"""Prometheus metrics of an application: their values, and /metrics."""

from __future__ import annotations

import re
from typing import Any

import anyio
import httpx
import pytest
from dependency_injector import providers
from prometheus_client import CollectorRegistry

from pyjms import (
    ApplicationContainer,
    Batch,
    PyjmsSettings,
    Queue,
    Reject,
    RetryPolicy,
    jms_listener,
)
from pyjms.aio import ConnectionFactory, JmsPoolConnectionFactory
from pyjms.app.application import JmsApplication
from pyjms.observability.prometheus import MOST_DESTINATIONS, PrometheusMetrics
from pyjms.testing.app import JmsTestApp, with_redelivery_delay
from pyjms_broker.testing import EmbeddedTestBroker


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


async def start(jms_app: JmsTestApp, registry: CollectorRegistry, *handlers: Any) -> JmsApplication:
    class Container(ApplicationContainer):
        metrics_registry = providers.Object(registry)

    url = with_redelivery_delay(jms_app.url, 0)
    given = PyjmsSettings.model_validate({"observability": {"prometheus": True}})
    return await jms_app.start(*handlers, settings=given.with_broker_url(url), container=Container)


async def test_what_is_counted(jms_app: JmsTestApp, registry: CollectorRegistry) -> None:
    @jms_listener("in", id="orders")
    def handle(text: str) -> str | None:
        if text == "bad":
            raise ValueError(text)
        return text if text == "request" else None

    application = await start(jms_app, registry, handle)
    template = application.template
    for text in ("a", "bad"):
        await template.convert_and_send("in", text)
    await jms_app.drained("in")
    assert await template.convert_send_and_receive("in", "request") == "request"
    await template.convert_and_send("other", "b")
    assert await template.receive_and_convert("other") == "b"
    await jms_app.drained("in")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"pyjms_{name}", labels)

    assert value("messages_sent_total", destination="in", outcome="sent") == 3
    assert value("messages_sent_total", destination="(temporary)", outcome="sent") == 1
    assert value("messages_received_total", destination="other") == 1
    orders = {"listener": "orders"}
    assert value("messages_handled_total", **orders, destination="in", outcome="succeeded") == 2
    assert value("messages_handled_total", **orders, destination="in", outcome="failed") == 7
    assert value("messages_redelivered_total", **orders) == 6
    assert value("handler_duration_seconds_count", **orders) == 9
    assert value("handlers_in_progress", **orders) == 0
    application.registry["orders"].loop_holds = 3
    assert value("listener_event_loop_held_total", **orders) == 3
    assert value("settlements_total", **orders, operation="commit", outcome="succeeded") == 2
    assert value("application_ready") == 1
    assert value("listener_up", **orders) == 1
    assert value("listener_consumers", **orders) == 1
    assert value("send_duration_seconds_count", destination="in") == 3
    await jms_app.stop()
    assert value("application_ready") is None


async def test_rollbacks_and_dead_letters_are_counted_by_listener(
    jms_app: JmsTestApp, registry: CollectorRegistry
) -> None:
    @jms_listener("in", id="orders")
    async def fails(text: str) -> None:
        if text == "poison":
            raise Reject(text)
        raise ValueError(text)

    @jms_listener(
        "kept", id="kept", retry=RetryPolicy(maximum=1, initial_delay=0, dead_letter="refused")
    )
    async def gives_up(text: str) -> None:
        raise ValueError(text)

    @jms_listener("items", id="batches", batch_size=2, auto_startup=False)
    async def rejects(batch: Batch[str]) -> None:
        batch.reject_at(0, ValueError("first"))

    application = await start(jms_app, registry, fails, gives_up, rejects)
    template = application.template
    for name, text in (("in", "bad"), ("in", "poison"), ("kept", "a"), ("items", "b")):
        await template.convert_and_send(name, text)
    await template.convert_and_send("items", "c")
    await application.registry["batches"].start()
    for name in ("in", "kept", "items"):
        await jms_app.drained(name)

    def counts(listener: str) -> tuple[float | None, float | None]:
        rolled_back = {"listener": listener, "operation": "rollback", "outcome": "succeeded"}
        return (
            registry.get_sample_value("pyjms_settlements_total", rolled_back),
            registry.get_sample_value("pyjms_dead_letters_total", {"listener": listener}),
        )

    await jms_app.stop()
    assert counts("orders") == (8, 2)
    assert counts("kept") == (2, 1)
    assert counts("batches") == (0, 1)


def test_there_are_no_series_of_creation_times(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    text = metrics.exposition("")[1].decode()
    assert "pyjms_messages_sent" in text
    names = [re.split("[{ ]", line)[0] for line in text.splitlines()]
    assert not [name for name in names if name.endswith("_created")]


async def test_metrics_over_http(jms_app: JmsTestApp, registry: CollectorRegistry) -> None:
    application = await start(jms_app, registry)
    await application.template.convert_and_send("q", "a")
    transport = httpx.ASGITransport(application.health_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.get("/metrics")
        openmetrics = await client.get(
            "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
        )
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'pyjms_messages_sent_total{destination="q",outcome="sent"} 1.0' in answer.text
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


def test_destinations_are_limited_and_registries_shared(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    assert PrometheusMetrics(registry).registry is registry
    send = metrics.send(None)

    class Sending:
        def __init__(self, number: int) -> None:
            self.destination = Queue(f"q{number}")

    async def proceed() -> None: ...

    for number in range(MOST_DESTINATIONS + 20):
        coroutine: Any = send(Sending(number), proceed)  # type: ignore[arg-type]
        with pytest.raises(StopIteration):
            coroutine.send(None)
    labels = {"destination": "(other)", "outcome": "sent"}
    assert registry.get_sample_value("pyjms_messages_sent_total", labels) == 20


async def test_it_is_off_by_default(jms_app: JmsTestApp) -> None:
    application = await jms_app.start()
    assert application.template.send_interceptors == ()


async def test_pools_of_connections(
    jms_broker: EmbeddedTestBroker, registry: CollectorRegistry
) -> None:
    PrometheusMetrics(registry)
    url = f"{jms_broker.url}&jms.userName=anna&jms.password=secret"
    first, second = (
        JmsPoolConnectionFactory(ConnectionFactory(url), max_sessions_per_connection=1)
        for _ in range(2)
    )
    broker = jms_broker.url.partition("?")[0]

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"pyjms_pool_{name}", {"broker": broker})

    async with first, second:
        assert value("connections") == 2
        async with (
            await first.create_connection() as connection,
            await connection.create_session(),
            anyio.create_task_group() as tasks,
        ):
            assert (value("borrowed_connections"), value("active_sessions")) == (1, 1)
            tasks.start_soon(connection.create_session)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert (value("sessions"), value("active_sessions")) == (1, 0)
        assert (value("created_connections_total"), value("created_sessions_total")) == (2, 1)
        assert (value("session_wait_seconds_count"), value("refused_sessions_total")) == (0, 0)
    assert value("connections") == 0
    exposition = PrometheusMetrics(registry).exposition("")[1].decode()
    assert f'pyjms_pool_created_connections_total{{broker="{broker}"}} 2.0' in exposition
    assert "secret" not in exposition
