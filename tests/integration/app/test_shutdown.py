"""The stop of an application with handlers that do not finish."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    DefaultJmsListenerContainerFactory,
    FixedBackOff,
    JmsApplication,
    PyjmsSettings,
    SimpleJmsListenerContainerFactory,
    jms_listener,
    load_settings,
    on_shutdown,
)
from pyjms.jms.message import Message
from pyjms.runtime.event_loop import LoopHandle
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms.testing.clock import VirtualClock


def written(folder: Path, timeout: str) -> Path:
    path = folder / "application.yaml"
    path.write_text(f"lifecycle:\n  timeout_per_shutdown_phase: {timeout}\n", encoding="utf-8")
    return path


def test_the_default_is_below_that_of_kubernetes() -> None:
    application = JmsApplication(settings=PyjmsSettings())
    assert 0 < application.stop_timeout < 30
    assert application.stop_timeout == PyjmsSettings().lifecycle.timeout_per_shutdown_phase


def test_the_deadline_is_a_setting(tmp_path: Path) -> None:
    config = written(tmp_path, "1500ms")
    assert JmsApplication(config=config).stop_timeout == 1.5
    assert JmsApplication(config=config, stop_timeout=7).stop_timeout == 7
    with pytest.raises(ConfigurationException, match="timeout_per_shutdown_phase"):
        load_settings(written(tmp_path, "soon"))


class Pushing(ApplicationContainer):
    """Containers to which the provider pushes."""

    jms_listener_container_factory = providers.Singleton(
        SimpleJmsListenerContainerFactory,  # type: ignore[arg-type]
        ApplicationContainer.native_connection_factory,
        session_transacted=True,
    )


@pytest.mark.parametrize("container", [ApplicationContainer, Pushing])
async def test_a_line_for_each_handler_that_is_given_up(
    container: Any, pyjms_broker_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    at_work = {"coroutine": anyio.Event(), "thread": anyio.Event()}

    class Slow:
        @jms_listener("coroutine", id="coroutine")
        async def wait(self, text: str) -> None:
            at_work["coroutine"].set()
            await anyio.sleep_forever()

        @jms_listener("thread", id="thread")
        def block(self, text: str) -> None:
            loop.call_soon(at_work["thread"].set)
            released.wait(60)

        @jms_listener("idle", id="idle")
        async def idle(self, text: str) -> None: ...

    loop = LoopHandle()
    settings = load_settings(written(tmp_path, "100ms")).with_broker_url(pyjms_broker_url)
    application = JmsApplication(Slow(), settings=settings, container=container)
    try:
        async with application:
            for queue in at_work:
                await application.template.convert_and_send(queue, "secret")
            for started in at_work.values():
                await started.wait()
            caplog.set_level(logging.INFO, logger="pyjms")
            caplog.clear()
    finally:
        released.set()
    given_up: list[Any] = [
        r for r in caplog.records if "does not wait any longer" in r.getMessage()
    ]
    assert {record.listener_id for record in given_up} == {"coroutine", "thread"}
    for record in given_up:
        assert record.levelno == logging.WARNING
        assert re.search(
            rf"handler of listener {record.listener_id}, which has run for \d+\.\d s: message ID:\S+"
            rf" on queue://{record.listener_id} will be delivered again",
            record.getMessage(),
        )
        assert record.message_id.startswith("ID:")
    assert len(given_up) == 2
    assert "secret" not in caplog.text


@pytest.mark.fact("activemq-broker R11")
@pytest.mark.parametrize("container", [ApplicationContainer, Pushing])
async def test_an_interruption_is_no_failed_attempt(
    container: type[ApplicationContainer],
    jms_broker: EmbeddedBroker,
    tmp_path: Path,
) -> None:
    at_work: list[Message] = []

    @jms_listener("tasks", id="tasks")
    async def on_task(message: Message) -> None:
        at_work.append(message)
        begun.set()
        await anyio.sleep_forever()

    config = written(tmp_path, "20ms")
    with config.open("a", encoding="utf-8") as file:
        file.write("activemq: {redelivery: {maximum: 1}}\n")
    settings = load_settings(config).with_broker_url(jms_broker.url)
    begun = anyio.Event()
    for run in range(4):
        async with JmsApplication(on_task, settings=settings, container=container) as application:
            if run == 0:
                await application.template.convert_and_send("tasks", "long")
            await begun.wait()
            begun = anyio.Event()
    assert [message.redelivered for message in at_work] == [False, True, True, True]
    assert [message.delivery_count for message in at_work] == [1, 2, 2, 2]
    assert await jms_broker.dead_letters() == []


class Hooks:
    """Shutdown hooks, of which the second one to run does not end."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.at_work = anyio.Event()

    @on_shutdown
    async def a_last(self) -> None:
        self.ran.append("last")

    @on_shutdown
    async def b_stuck(self) -> None:
        self.ran.append("stuck")
        self.at_work.set()
        await anyio.sleep_forever()

    @on_shutdown
    async def c_first(self) -> None:
        self.ran.append("first")


@pytest.mark.parametrize(("timeout", "seconds"), [(20.0, 20), (1.0, 3)])
async def test_the_deadline_bounds_shutdown_hooks_too(
    timeout: float,
    seconds: int,
    jms_broker: EmbeddedBroker,
    jms_clock: VirtualClock,
    pyjms_broker_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks = Hooks()
    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    application = JmsApplication(hooks, settings=settings, stop_timeout=timeout)
    await application.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(application.stop)
        await hooks.at_work.wait()
        await jms_clock.advance(seconds - 0.5)
        assert "is given up" not in caplog.text
        await jms_clock.advance(0.5)
    assert hooks.ran == ["first", "stuck"]
    assert f"Shutdown hook Hooks.b_stuck did not end within {seconds} s" in caplog.text
    assert "Shutdown hook Hooks.a_last is not run" in caplog.text
    assert not application.is_running


@pytest.mark.parametrize(("jitter", "added"), [(None, 0.8), (0.0, 0.0), (0.5, 0.5)])
async def test_a_back_off_keeps_its_jitter(
    jitter: float | None, added: float, jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    rule = FixedBackOff(4.0, jitter=jitter)

    class Own(ApplicationContainer):
        jms_listener_container_factory = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            back_off=rule,
        )

    @jms_listener("orders", id="orders")
    async def on_order(text: str) -> None: ...

    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    async with JmsApplication(on_order, settings=settings, container=Own) as application:
        container: Any
        (container,) = application.registry
        assert container.back_off.jitter == added
        waits = [container.back_off.start().next_back_off() for _ in range(50)]
    assert all(4.0 <= wait <= 5.0 for wait in waits)
    assert (len(set(waits)) == 1) is (jitter == 0)
