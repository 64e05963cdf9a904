"""The phase of a container: lower ones start first and stop last. Spring: SmartLifecycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    DefaultJmsListenerContainerFactory,
    JmsApplication,
    PyjmsSettings,
    jms_listener,
)
from pyjms.aio import DefaultMessageListenerContainer, JmsTemplate
from pyjms.listener import JmsListenerEndpointRegistry
from pyjms.listener.endpoint import SimpleJmsListenerEndpoint
from tests.kit.waiting import until


class Container(ApplicationContainer):
    early = providers.Singleton(
        DefaultJmsListenerContainerFactory,
        ApplicationContainer.native_connection_factory,
        phase=7,
    )


@pytest.mark.fact("spring-jms 1.1/phase")
async def test_a_lower_phase_stops_when_higher_ones_have_finished(
    pyjms_broker_url: str, jms_template: JmsTemplate
) -> None:
    at_work, release, handled = anyio.Event(), anyio.Event(), anyio.Event()

    @jms_listener("results", id="results", container_factory="early")
    async def results(text: str) -> None:
        handled.set()

    @jms_listener("orders", id="orders")
    async def orders(text: str) -> None:
        at_work.set()
        await release.wait()

    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    application = JmsApplication(results, orders, settings=settings, container=Container)
    await application.start()
    first, last = application.registry["orders"], application.registry["results"]
    await jms_template.convert_and_send("orders", "a")
    with anyio.fail_after(10):
        await at_work.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(application.stop)
            await until(lambda: not first.is_running)
            assert last.is_running
            await jms_template.convert_and_send("results", "of the order in progress")
            await handled.wait()
            release.set()
    assert not last.is_running


class Recorded(DefaultMessageListenerContainer):
    """Records when it starts and stops."""

    def __init__(self, events: list[str], name: str, phase: int, factory: Any) -> None:
        super().__init__(
            factory, destination_name=name, phase=phase, message_listener=events.append
        )
        self.events = events

    async def start(self) -> None:
        self.events.append(f"start {self.destination_name}")
        await super().start()

    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        self.events.append(f"stop {self.destination_name}")
        await super().stop(callback)

    async def shutdown(self, timeout: float | None = None) -> None:
        self.events.append(f"shut down {self.destination_name}")
        await super().shutdown(timeout)


@pytest.mark.fact("spring-jms 1.1/phase")
async def test_containers_start_by_phase_and_stop_in_the_contrary_order(jms_template: Any) -> None:
    events: list[str] = []
    registry = JmsListenerEndpointRegistry()
    for name, phase in (("a", registry.phase), ("b", -3), ("c", registry.phase), ("d", -3)):
        container = Recorded(events, name, phase, jms_template.connection_factory)
        endpoint = SimpleJmsListenerEndpoint(id=name, destination=name, message_listener=print)
        registry.register(endpoint, lambda _, made=container: made)  # type: ignore[misc]
    await registry.start()
    assert events == ["start b", "start d", "start a", "start c"]
    events.clear()
    await registry.stop()
    assert events == ["stop a", "stop c", "stop b", "stop d"]
    await registry.start()
    events.clear()
    await registry.shutdown()
    assert {*events[:2]} == {"shut down a", "shut down c"}
    assert {*events[2:]} == {"shut down b", "shut down d"}
    assert len(registry) == 0
