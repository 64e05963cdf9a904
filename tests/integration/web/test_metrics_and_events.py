"""Prometheus metrics, health and Server-Sent Events."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest
from httpx import AsyncClient

from pyjms_broker.management.view_attributes import BROKER, DESTINATION
from pyjms_broker.service import BrokerService
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from pyjms_broker.web import WebConfiguration
from pyjms_broker.web.monitoring import metrics_of
from tests.kit.brokers.security import simple, user
from tests.kit.waiting import until
from tests.kit.web.sites import web_broker

LINE = re.compile(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})? (NaN|[0-9.e+-]+)')


def samples(text: str) -> dict[str, float]:
    """Read Prometheus' text format; every line must be right."""
    types: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            assert match[1] in types
            assert (types[match[1]] == "counter") == match[1].endswith("_total")
            found[f"{match[1]}{match[2] or ''}"] = float(match[3])
    assert text.endswith("\n")
    return found


@pytest.mark.fact("activemq-edges 11.18")
async def test_metrics_of_broker_and_destinations() -> None:
    async with web_broker(broker_name="measured") as broker, broker.client() as client:
        for number in range(3):
            await client.post("/api/message/orders?type=queue", data={"body": str(number)})
        await client.get("/api/message/orders?type=queue&readTimeout=5000")
        answer = await client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = samples(answer.text)
    labels = '{destination="orders",type="queue"}'
    assert found[f"pyjms_destination_messages{labels}"] == 2
    assert found[f"pyjms_destination_enqueued_total{labels}"] == 3
    assert found[f"pyjms_destination_dequeued_total{labels}"] == 1
    assert found["pyjms_broker_ready"] == 1
    assert found["pyjms_broker_unwritable_total"] == 0
    assert found["pyjms_broker_event_loop_lag_seconds"] >= 0
    assert found["pyjms_broker_event_loop_held_total"] >= 0
    assert found["pyjms_broker_memory_limit_bytes"] == 1 << 30
    assert any(name.startswith('pyjms_broker_info{broker="measured",') for name in found)
    for metric in metrics_of(BROKER).values():
        assert f"pyjms_broker_{metric.name}" in found
    for metric in metrics_of(DESTINATION).values():
        assert f"pyjms_destination_{metric.name}{labels}" in found
    assert not any("ActiveMQ.Advisory" in name for name in found)


async def test_metrics_of_durable_subscriptions() -> None:
    async with web_broker() as broker, broker.client() as client:
        broker_view = broker.service.management.context.names.broker().text
        create = broker.service.management.invoke
        await create(broker_view, "addTopic", "prices")
        await create(broker_view, "createDurableSubscriber", "shop", "all", "prices", None)
        await client.post("/api/message/prices?type=topic", data={"body": "x"})
        found = samples((await client.get("/metrics")).text)
    labels = '{client="shop",subscription="all",destination="prices"}'
    assert found[f"pyjms_subscription_messages{labels}"] == 1
    assert found["pyjms_broker_slow_consumers"] == 0
    assert found["pyjms_broker_bridges"] == 0


async def test_metrics_of_the_process_and_its_disk(tmp_path: Path) -> None:
    async with (
        web_broker(persistent=True, data_directory=tmp_path) as broker,
        broker.client() as client,
    ):
        await client.post("/api/message/orders?type=queue", data={"body": "x"})
        found = samples((await client.get("/metrics")).text)
    assert found["process_cpu_seconds_total"] > 0
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert 3 < found["process_open_fds"] < found["process_max_fds"]
    assert found["pyjms_broker_store_disk_free_bytes"] > 0
    assert found["pyjms_broker_journal_files"] == 1
    age = found['pyjms_destination_oldest_message_age_seconds{destination="orders",type="queue"}']
    assert 0 <= age < 3600


async def test_failed_logins_are_counted() -> None:
    async with web_broker(simple(user("root", "admins"))) as broker:
        for password in ("wrong", "secret"):
            async with broker.client("root", password) as client:
                answer = await client.get("/metrics")
        assert samples(answer.text)["pyjms_broker_failed_logins_total"] == 1


async def test_labels_are_escaped() -> None:
    async with web_broker() as broker, broker.client() as client:
        await client.post('/api/message?type=queue&destination=a"b%5Cc%0Ad', data={"body": "x"})
        found = samples((await client.get("/metrics")).text)
    assert 'pyjms_destination_messages{destination="a\\"b\\\\c\\nd",type="queue"}' in found


async def test_metrics_need_a_reader() -> None:
    web = {"reader_groups": frozenset({"watchers"})}
    users = simple(user("eve", "watchers"), user("alice", "shop"))
    async with web_broker(users, web=web) as broker:
        for name, status in (("eve", 200), ("alice", 403), (None, 401)):
            async with broker.client(name) as client:
                assert (await client.get("/metrics")).status_code == status
                assert (await client.get("/health/ready")).status_code == 200


class SlowStore(MemoryPersistenceAdapter):
    """A store that opens when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_open = anyio.Event()

    async def start(self) -> None:
        await self.may_open.wait()
        await super().start()


async def test_a_broker_is_ready_while_it_has_started() -> None:
    store = SlowStore()
    service = BrokerService(
        "starting",
        persistence_adapter=store,
        web=WebConfiguration(port=0, parts=("health", "metrics", "events")),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.start)
        await until(
            lambda: service.website.url is not None and not service.website.url.endswith(":0")
        )
        async with AsyncClient(base_url=str(service.website.url), verify=False) as client:
            assert (await client.get("/health/live")).status_code == 200
            ready = await client.get("/health/ready")
            assert (ready.status_code, ready.json()) == (503, {"status": "starting"})
            assert samples((await client.get("/metrics")).text) == {"pyjms_broker_ready": 0}
            other = await client.get("/api/events")
            assert other.status_code == 503
            store.may_open.set()
            await until(lambda: service.started)
            assert (await client.get("/health/ready")).json() == {"status": "ready"}
        await service.stop()


async def events(client: Any, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with client.stream("GET", "/api/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == count:
                    break
    return found


async def test_events_have_counters_and_rates() -> None:
    async with web_broker() as broker, broker.client() as client, broker.client() as sender:
        await sender.post("/api/message/orders?type=queue", data={"body": "x"})
        async with anyio.create_task_group() as tasks:
            got: list[dict[str, Any]] = []

            async def watch() -> None:
                got.extend(await events(client, 2))

            tasks.start_soon(watch)
        first, second = got
    assert first["broker"]["messages"] == 1
    row = second["destinations"][0]
    assert (row["name"], row["type"], row["size"]) == ("orders", "queue", 1)
    assert row["enqueued_per_second"] == 0.0
    assert second["time"] > first["time"]
    assert second["omitted"] == 0


async def test_events_end_when_the_broker_stops() -> None:
    lines: list[str] = []
    async with anyio.create_task_group() as tasks, web_broker() as broker:
        client = broker.client()

        async def watch() -> None:
            async with client, client.stream("GET", "/api/events") as stream:
                async for line in stream.aiter_lines():
                    lines.append(line)
            lines.append("ended")

        tasks.start_soon(watch)
        await until(lambda: any(line.startswith("data: ") for line in lines))
    assert lines[-1] == "ended"


async def test_a_client_that_does_not_read_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    destinations = tuple(f"queue-{number}-{'x' * 200}" for number in range(200))
    async with web_broker(web={"request_timeout": 0.5}) as broker, broker.client() as client:
        for name in destinations:
            await client.post(f"/api/message/{name}?type=queue", data={"body": "x"})
        host, port = broker.url.removeprefix("http://").split(":")
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.setblocking(False)
            with pytest.raises(BlockingIOError):
                slow.connect((host, int(port)))
            await anyio.wait_writable(slow)
            slow.send(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # the buffers of the kernel take some events; then the connection is cut
            await anyio.wait_readable(slow)
            for _ in range(3):
                assert len(await events(client, 2)) == 2


async def test_there_are_at_most_fifty_clients_of_events() -> None:
    async with web_broker() as broker, broker.client() as client:
        streams = []
        for _ in range(50):
            opened = client.stream("GET", "/api/events")
            streams.append((opened, await opened.__aenter__()))
        refused = await client.get("/api/events")
        assert refused.status_code == 503
        for opened, _ in streams:
            await opened.__aexit__(None, None, None)
