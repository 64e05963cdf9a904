"""Listeners are paused, resumed, scaled and removed while the application runs."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    JmsApplication,
    JMSException,
    PyjmsSettings,
    Queue,
    SimpleJmsListenerContainerFactory,
    jms_listener,
)
from pyjms.aio import ConnectionFactory, JmsTemplate
from tests.kit.waiting import until


class Simple(ApplicationContainer):
    simple = providers.Singleton(
        SimpleJmsListenerContainerFactory, ApplicationContainer.native_connection_factory
    )


class Handler:
    """Keeps each message until it is released; counts calls at the same time."""

    def __init__(self) -> None:
        self.release = anyio.Event()
        self.running = 0
        self.most = 0
        self.handled: list[str] = []

    async def __call__(self, text: str) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.release.wait()
        self.running -= 1
        self.handled.append(text)


Start = Callable[..., Awaitable[tuple[JmsApplication, Handler]]]


@pytest.fixture
async def start(pyjms_broker_url: str) -> AsyncIterator[Start]:
    applications: list[JmsApplication] = []

    async def begin(**options: Any) -> tuple[JmsApplication, Handler]:
        handler = Handler()

        @jms_listener("orders", id="orders", **options)
        async def on_order(text: str) -> None:
            await handler(text)

        # the default container's consumers end after ten receives without a message
        is_default = "container_factory" not in options
        listener: Any = {"receive_timeout": "100ms"} if is_default else {}
        settings = PyjmsSettings(listeners={"orders": listener}).with_broker_url(pyjms_broker_url)
        application = JmsApplication(on_order, settings=settings, container=Simple)
        await application.start()
        applications.append(application)
        return application, handler

    with anyio.fail_after(30):
        yield begin
        for application in applications:
            await application.stop(0)


@pytest.fixture(params=["default", "simple"])
def factory(request: pytest.FixtureRequest) -> dict[str, str]:
    return {} if request.param == "default" else {"container_factory": "simple"}


async def test_a_paused_listener_finishes_its_message_and_receives_no_other(
    start: Start, jms_template: JmsTemplate, factory: dict[str, str]
) -> None:
    application, handler = await start(**factory)
    await jms_template.convert_and_send("orders", "a")
    await until(lambda: handler.running == 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(application.pause, "orders")
        await until(lambda: not application.registry["orders"].is_running)
        assert await application.pause("orders", timeout=0) is False
        handler.release.set()
    assert handler.handled == ["a"]
    await jms_template.convert_and_send("orders", "b")
    assert await application.pause() is True
    assert handler.handled == ["a"]
    await application.resume()
    await until(lambda: handler.handled == ["a", "b"])


async def test_a_resume_ends_the_wait_for_a_pause(start: Start, jms_template: JmsTemplate) -> None:
    application, handler = await start()
    await jms_template.convert_and_send("orders", "a")
    await until(lambda: handler.running == 1)
    results: list[bool] = []

    async def pause() -> None:
        results.append(await application.pause())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pause)
        await until(lambda: not application.registry["orders"].is_running)
        await application.resume("orders")
    assert results == [False]
    handler.release.set()
    await jms_template.convert_and_send("orders", "b")
    await until(lambda: handler.handled == ["a", "b"])


async def test_more_consumers_work_at_once(
    start: Start, jms_template: JmsTemplate, factory: dict[str, str]
) -> None:
    application, handler = await start(concurrency="1-1", prefetch=1, **factory)
    for number in range(4):
        await jms_template.convert_and_send("orders", str(number))
    await until(lambda: handler.running == 1)
    await application.registry["orders"].scale(3)
    await until(lambda: handler.running == 3)
    handler.release.set()
    await until(lambda: len(handler.handled) == 4)
    await application.registry["orders"].scale(1)
    await until(lambda: application.registry["orders"].scheduled_consumer_count == 1)
    for number in range(4):
        await jms_template.convert_and_send("orders", str(number))
    await until(lambda: len(handler.handled) == 8)


async def test_consumers_in_a_range_follow_the_load(
    start: Start, jms_template: JmsTemplate
) -> None:
    application, handler = await start(concurrency="1-1", prefetch=1)
    await application.registry["orders"].scale(1, 4)
    for number in range(12):
        await jms_template.convert_and_send("orders", str(number))
    await until(lambda: handler.running == 4)
    await application.registry["orders"].scale(1, 2)
    handler.release.set()
    await until(lambda: application.registry["orders"].scheduled_consumer_count <= 2)
    await until(lambda: len(handler.handled) == 12)


@pytest.mark.parametrize("bounds", [(0,), (3, 2), (-1, 1)])
async def test_an_impossible_range_is_refused(start: Start, bounds: tuple[int, ...]) -> None:
    application, _ = await start()
    with pytest.raises(ValueError, match="is not a range"):
        await application.registry["orders"].scale(*bounds)
    assert application.registry["orders"].concurrency == "1-1"


async def test_an_unregistered_listener_does_not_exist(
    start: Start, jms_template: JmsTemplate
) -> None:
    application, _ = await start()
    await application.registry.unregister("orders")
    assert application.registry.get_listener_container_ids() == ()
    with pytest.raises(KeyError, match="no listener has the id 'orders'; there are: none"):
        await application.pause("orders")
    await jms_template.convert_and_send("orders", "a")
    assert await jms_template.receive("orders", timeout=5) is not None


async def test_signals_pause_and_resume(pyjms_broker_url: str) -> None:
    @jms_listener("orders", id="orders")
    async def on_order(text: str) -> None: ...

    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    application = JmsApplication(on_order, settings=settings)
    async with _running(application):
        container = application.registry["orders"]
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: not container.is_running)
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: container.is_running)


@asynccontextmanager
async def _running(application: JmsApplication) -> AsyncIterator[None]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(application.run_async)
            await until(lambda: len(application.registry) > 0 and application.registry.is_running)
            # the handlers of the signals are set when the start has returned
            await until(lambda: signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL)
            yield
            application.request_stop()


async def test_resume_starts_a_listener_that_was_never_started_only_by_name(
    start: Start, factory: dict[str, str]
) -> None:
    application, _ = await start(auto_startup=False, **factory)
    container = application.registry["orders"]
    running = []
    for resumed in ((), ("orders",), ()):
        await application.pause()
        running.append(container.is_running)
        await application.resume(*resumed)
        running.append(container.is_running)
    assert running == [False, False, False, True, False, True]


async def test_an_embedded_broker_runs_while_all_listeners_are_paused() -> None:
    handled: list[str] = []

    @jms_listener("orders", id="orders")
    async def on_order(text: str) -> None:
        handled.append(text)

    settings = PyjmsSettings().with_broker_url("vm://paused?broker.persistent=false")
    with anyio.fail_after(30):
        async with JmsApplication(on_order, settings=settings) as application:
            await application.pause()
            factory = ConnectionFactory("vm://paused?create=false")
            async with await factory.create_connection() as connection:
                session = await connection.create_session()
                producer = await session.create_producer(Queue("orders"))
                await producer.send(session.create_text_message("a"))
            assert handled == []
            await application.resume()
            await until(lambda: handled == ["a"])
    with pytest.raises(JMSException, match="does not exist"):
        await ConnectionFactory("vm://paused?create=false").create_connection()
