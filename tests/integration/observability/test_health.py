"""Health checks: phases, stuck and paused listeners, the ASGI application and its port."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest

from pyjms import (
    ConfigurationException,
    JmsApplication,
    PyjmsSettings,
    jms_listener,
    on_shutdown,
    on_startup,
)
from pyjms.errors import ResourceAllocationException
from pyjms.observability.server import EmbeddedServer
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from pyjms_broker import BrokerService
from tests.kit.processes.forked_python import run_python


def settings(jms_app: JmsTestApp, **sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections).with_broker_url(jms_app.url)


class Held:
    """A handler that waits until it is released."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.let_go = anyio.Event()

    @jms_listener("in", id="held")
    async def handle(self, text: str) -> None:
        self.entered.set()
        await self.let_go.wait()


@pytest.fixture
def held() -> Held:
    return Held()


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_the_phases_of_an_application(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="orders")
    async def handle(text: str) -> None: ...

    application = await jms_app.start(handle)
    health = application.health()
    assert (health.live, health.started, health.ready) == (True, True, True)
    (listener,) = health.listeners
    assert (listener.id, listener.destination, listener.status) == ("orders", "in", "up")
    assert listener.consumers == 1
    await jms_app.stop()
    health = application.health()
    assert (health.live, health.started, health.ready) == (False, False, False)
    assert health.reasons == ("stopped",)


async def test_an_application_that_starts_or_stops_is_not_ready(jms_app: JmsTestApp) -> None:
    seen: list[tuple[bool, bool, bool]] = []

    def note() -> None:
        health = jms_app.application.health()
        seen.append((health.live, health.started, health.ready))

    @on_startup
    async def starting() -> None:
        note()

    @on_shutdown
    async def stopping() -> None:
        note()

    await jms_app.start(starting, stopping)
    await jms_app.stop()
    assert seen == [(True, False, False), (True, True, False)]


@pytest.mark.parametrize("waiting", [True, False])
async def test_a_handler_that_holds_up_messages_makes_its_listener_stuck(
    jms_app: JmsTestApp, jms_clock: VirtualClock, held: Held, waiting: bool
) -> None:
    application = await jms_app.start(
        held, settings=settings(jms_app, health={"stuck_after": "60s"})
    )
    for text in ["a", "b"] if waiting else ["a"]:
        await jms_app.template.convert_and_send("in", text)
    await held.entered.wait()
    await jms_clock.settle()
    await jms_clock.advance(50)
    assert application.health().ready
    await jms_clock.advance(20)
    health = application.health()
    assert health.ready is not waiting
    assert health.listeners[0].longest == pytest.approx(70, abs=1)
    assert health.listeners[0].busy == 1
    if waiting:
        assert health.reasons == ("listener held: stuck",)
    held.let_go.set()
    await jms_app.drained("in")
    assert application.health().ready


async def test_without_a_buffer_all_consumers_must_be_late(
    jms_app: JmsTestApp, jms_clock: VirtualClock, held: Held
) -> None:
    given = settings(jms_app, listeners={"held": {"prefetch": 1, "concurrency": "2"}})
    application = await jms_app.start(held, settings=given)
    await jms_app.template.convert_and_send("in", "a")
    await held.entered.wait()
    await jms_clock.advance(400)
    assert application.health().ready
    await jms_app.template.convert_and_send("in", "b")
    await jms_clock.settle()
    await jms_clock.advance(400)
    assert application.health().reasons == ("listener held: stuck",)
    held.let_go.set()
    await jms_app.drained("in")


async def test_a_limit_can_be_left_out(
    jms_app: JmsTestApp, jms_clock: VirtualClock, held: Held
) -> None:
    application = await jms_app.start(
        held, settings=settings(jms_app, health={"stuck_after": None})
    )
    for text in ("a", "b"):
        await jms_app.template.convert_and_send("in", text)
    await held.entered.wait()
    await jms_clock.advance(100_000)
    assert application.health().ready
    held.let_go.set()
    await jms_app.drained("in")


async def test_paused_and_stopped_listeners(jms_app: JmsTestApp) -> None:
    @jms_listener("a", id="a")
    async def first(text: str) -> None: ...

    @jms_listener("b", id="b", auto_startup=False)
    async def second(text: str) -> None: ...

    application = await jms_app.start(first, second)
    assert [each.status for each in application.health().listeners] == ["up", "not_started"]
    assert application.health().ready
    await application.pause("a")
    assert application.health().listeners[0].status == "paused"
    assert application.health().ready
    await application.resume("a")
    await until(lambda: application.health().listeners[0].status == "up")
    await application.registry["a"].stop()
    health = application.health()
    assert health.reasons == ("listener a: stopped",)
    assert health.as_dict()["status"] == "listener a: stopped"


async def asked(application: JmsApplication, path: str = "/health/ready") -> tuple[int, Any]:
    transport = httpx.ASGITransport(application.health_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://health") as http:
        answer = await http.get(path)
    return answer.status_code, answer.json()


def sender(*urls: str, **health: Any) -> JmsApplication:
    """An application that only sends, to one broker or several."""
    others = {f"other{number}": {"broker_url": url} for number, url in enumerate(urls[1:])}
    given = {"activemq": {"broker_url": urls[0]}, "brokers": others, "health": health}
    return JmsApplication(settings=PyjmsSettings.model_validate(given))


@pytest.mark.fact("spring-jms 8.1.9")
async def test_an_application_that_only_sends_is_ready_while_its_brokers_are_there(
    caplog: pytest.LogCaptureFixture, jms_clock: VirtualClock
) -> None:
    service = BrokerService("asked", persistent=False)
    service.add_connector("tcp://127.0.0.1:0")
    async with service as broker:
        uri = broker.connect_uri
        application = sender(uri, "tcp://127.0.0.1:1")
        async with application:
            assert application.health().ready  # nobody was asked
            status, answer = await asked(application)
            assert (status, answer["status"]) == (503, "broker other0: down")
            assert answer["brokers"] == {
                "activemq": {"status": "up", "provider": "ActiveMQ"},
                "other0": {"status": "down", "error": "ConnectionFailedException"},
            }
            assert (await asked(application, "/health/started"))[0] == 200
            await jms_clock.advance(2)
            assert (await asked(application))[0] == 503
    lines = [r.getMessage() for r in caplog.records if "cannot be reached" in r.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("Broker other0 cannot be reached: ")


async def test_a_sender_is_ready_again_when_its_broker_comes_back(jms_clock: VirtualClock) -> None:
    service = BrokerService("back", persistent=False)
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    uri = service.connect_uri
    async with sender(uri) as application:
        assert (await application.probe()).ready
        await service.stop()
        await jms_clock.advance(2)
        health = await application.probe()
        assert health.reasons == ("broker activemq: down",)
        again = BrokerService("back", persistent=False)
        again.add_connector(uri)
        async with again:
            assert not (await application.probe()).ready  # the answer is kept for a second
            await jms_clock.advance(2)
            assert (await application.probe()).ready


@pytest.mark.fact("spring-jms 8.1.9", "spring-jms 8/management.health.jms.start-timeout")
async def test_a_broker_that_does_not_answer_is_down_after_the_timeout(
    jms_clock: VirtualClock,
) -> None:
    assert PyjmsSettings().health.probe_timeout == 5.0
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with sender(f"tcp://127.0.0.1:{port}", probe_timeout="7s") as application:
            found: list[Any] = []

            async def probe() -> None:
                found.append(await application.probe())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(probe)
                await jms_clock.settle()
                await jms_clock.advance(6.5)
                assert found == []
                await jms_clock.advance(1)
            (health,) = found
            assert [(each.status, each.error) for each in health.brokers] == [
                ("down", "TimeoutError")
            ]


@pytest.mark.fact("spring-jms 8/management.health.jms.enabled")
async def test_embedded_brokers_are_not_asked_nor_others_without_a_timeout() -> None:
    async with JmsApplication(settings=PyjmsSettings()) as application:
        assert (await application.probe()).brokers == ()
    async with sender("tcp://127.0.0.1:1", probe_timeout=None) as application:
        health = await application.probe()
        assert (health.ready, health.brokers) == (True, ())
        assert (await asked(application))[0] == 200
    assert (await application.probe()).reasons == ("stopped",)


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:1", "failover:(tcp://127.0.0.1:1)"])
async def test_an_absent_broker_is_not_ready(url: str) -> None:
    @jms_listener("in", id="orders")
    async def handle(text: str) -> None: ...

    given = PyjmsSettings.model_validate({"lifecycle": {"startup_timeout": "100ms"}})
    async with JmsApplication(handle, settings=given.with_broker_url(url)) as application:
        health = application.health()
        assert health.started
        assert health.live
        assert health.reasons == ("listener orders: no_consumer",)


async def test_a_broker_that_is_lost_and_returns() -> None:
    @jms_listener("in", id="orders")
    async def handle(text: str) -> None: ...

    service = BrokerService("lost", persistent=False)
    service.add_connector("tcp://127.0.0.1:0")
    async with service as broker:
        uri = broker.connect_uri
        given = PyjmsSettings().with_broker_url(f"failover:({uri})?initialReconnectDelay=10")
        application = JmsApplication(handle, settings=given)
        await application.start()
        assert application.health().ready
    await until(lambda: application.health().reasons == ("listener orders: no_consumer",))
    again = BrokerService("lost", persistent=False)
    again.add_connector(uri)
    async with again:
        await until(lambda: application.health().ready)
        await application.stop()


# --- over HTTP


async def test_the_asgi_application(
    jms_app: JmsTestApp, held: Held, jms_clock: VirtualClock
) -> None:
    application = await jms_app.start(held)
    transport = httpx.ASGITransport(application.health_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        ready = await client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert ready.json()["listeners"]["held"]["status"] == "up"
        assert (await client.get("/health/live")).json() == {"status": "up"}
        assert (await client.get("/health/started")).json() == {"status": "started"}
        assert (await client.head("/health/ready")).content == b""
        assert (await client.post("/health/ready")).status_code == 405
        assert (await client.get("/metrics")).status_code == 404
        for text in ("a", "b"):
            await jms_app.template.convert_and_send("in", text)
        await held.entered.wait()
        await jms_clock.settle()
        await jms_clock.advance(400)
        ready = await client.get("/health/ready")
        assert ready.status_code == 503
        assert ready.json()["status"] == "listener held: stuck"
        assert ready.headers["retry-after"] == "5"
        held.let_go.set()
        await jms_app.drained("in")
        await jms_app.stop()
        assert (await client.get("/health/live")).status_code == 503


async def test_it_is_mounted_in_fastapi(jms_app: JmsTestApp) -> None:
    from fastapi import FastAPI

    application = await jms_app.start()
    api = FastAPI()
    api.mount("/jms", application.health_app())
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        assert (await client.get("/jms/health/ready")).status_code == 200
        assert (await client.get("/jms/health/nothing")).status_code == 404


async def test_the_lifespan_of_a_server(jms_app: JmsTestApp) -> None:
    application = await jms_app.start()
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return next(events)

    async def send(event: Any) -> None:
        sent.append(event["type"])

    await application.health_app()({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_port(jms_app: JmsTestApp) -> None:
    given = settings(jms_app, health={"port": 0, "host": "127.0.0.1"})
    application = await jms_app.start(settings=given)
    url = f"http://127.0.0.1:{application.observation.port}"
    async with httpx.AsyncClient(base_url=url, verify=False) as client:
        answer = await client.get("/health/ready")
    assert answer.status_code == 200
    assert json.loads(answer.content)["phase"] == "running"
    await jms_app.stop()
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(base_url=url, verify=False) as client:
            await client.get("/health/live")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_port_in_use_is_named(jms_app: JmsTestApp) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as other:
        port = other.extra(anyio.abc.SocketAttribute.local_port)
        given = settings(jms_app, health={"port": port, "host": "127.0.0.1"})
        with pytest.raises(ResourceAllocationException, match=f"127.0.0.1:{port}"):
            await jms_app.start(settings=given)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_response_waits_for_an_acknowledgement() -> None:
    """Of its first part, which the client's system delays: connections inherit the option."""
    listener: Any = (await anyio.create_tcp_listener(local_host="127.0.0.1")).listeners[0]
    server = EmbeddedServer(lambda *_: None, "test")
    await server.start([listener])
    raw_socket = listener.extra(anyio.abc.SocketAttribute.raw_socket)
    assert raw_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await server.stop()


def test_a_port_on_trio_is_refused() -> None:
    async def run() -> None:
        given = PyjmsSettings.model_validate({"health": {"port": 0}})
        async with JmsApplication(settings=given):
            raise AssertionError("not started")

    with pytest.raises(ConfigurationException, match="needs asyncio"):
        anyio.run(run, backend="trio")


def test_it_answers_while_a_handler_blocks_its_thread() -> None:
    """A `def` handler runs in its own thread, so the checks continue."""
    release = threading.Event()
    entered = threading.Event()

    @jms_listener("in", id="blocking")
    def handle(text: str) -> None:
        entered.set()
        release.wait(20)

    async def run() -> None:
        given = PyjmsSettings.model_validate({"health": {"port": 0, "host": "127.0.0.1"}})
        async with JmsApplication(
            handle, settings=given.with_broker_url("vm://health?broker.persistent=false")
        ) as application:
            await application.template.convert_and_send("in", "a")
            await until(entered.is_set)
            url = f"http://127.0.0.1:{application.observation.port}/health/ready"
            async with httpx.AsyncClient(verify=False) as client:
                answer = (await client.get(url)).json()
            assert answer["listeners"]["blocking"]["busy"] == 1
            release.set()

    anyio.run(run)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_and_its_successor_share_a_port(jms_app: JmsTestApp) -> None:
    given = settings(jms_app, health={"port": 0, "host": "127.0.0.1"})
    first = JmsApplication(settings=given)
    first.observation.use_port_of_worker(1)
    async with first:
        port = first.observation.port
        assert port
        second = JmsApplication(settings=given)
        second.observation.port = port - 1
        second.observation.use_port_of_worker(2)
        async with second:
            assert second.observation.port == port


def test_the_port_of_the_command_line(tmp_path: Path, free_tcp_port: int) -> None:
    (tmp_path / "shop.py").write_text(
        "import os, signal, urllib.error, urllib.request\n"
        "from pyjms import jms_listener, on_startup\n"
        "@jms_listener('in', id='orders')\n"
        "def handle(text: str) -> None: ...\n"
        "def status(path):\n"
        "    try:\n"
        f"        url = 'http://127.0.0.1:{free_tcp_port}/health/' + path\n"
        "        return urllib.request.urlopen(url, timeout=20).status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        return error.code\n"
        "@on_startup\n"
        "def look() -> None:\n"
        "    print(status('live'), status('started'), status('ready'))\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    url = "vm://localhost?broker.persistent=false"
    done = run_python(
        *("-m", "pyjms", "run", "shop", "--health-port", str(free_tcp_port)),
        cwd=tmp_path,
        env=os.environ | {"PYJMS_ACTIVEMQ__BROKER_URL": url},
    )
    assert done.stdout.split() == ["200", "503", "503"], done.stderr
