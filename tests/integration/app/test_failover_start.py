"""Applications that start with `failover:` while there is no broker."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import anyio
import pytest
from dependency_injector.wiring import Provide

from pyjms import JmsApplication, PyjmsSettings, jms_listener, on_startup
from pyjms.aio import JmsTemplate
from tests.integration.app.test_outages import Heard, free_port, send_to_both, shown, started
from tests.kit.waiting import LONGEST_WAIT


def settings(port: int, query: str = "", **more: Any) -> PyjmsSettings:
    values = {
        "lifecycle": {"startup_timeout": "50ms"},
        "jms": {"listener": {"recovery_interval": "50ms"}},
        **more,
    }
    url = f"failover:(tcp://127.0.0.1:{port})?initialReconnectDelay=5&maxReconnectDelay=20{query}"
    return PyjmsSettings(**values).with_broker_url(url)


@pytest.mark.fact("activemq-edges 11.8")
@pytest.mark.parametrize("cache", ["auto", "none"])
async def test_the_start_does_not_wait_forever(
    caplog: pytest.LogCaptureFixture, cache: str
) -> None:
    caplog.set_level(logging.INFO, logger="pyjms")
    port = free_port()
    heard = Heard()
    listener = {"recovery_interval": "50ms", "cache_level": cache}
    with anyio.fail_after(LONGEST_WAIT):
        application = JmsApplication(heard, settings=settings(port, jms={"listener": listener}))
        async with application:
            lines = shown(caplog)
            broker = f"failover:(tcp://127.0.0.1:{port})"
            assert len([line for line in lines if "cannot be reached" in line]) == 1
            assert lines[0].startswith(f"WARNING Broker {broker} cannot be reached: ")
            assert "within 0.05 s" in lines[0]
            assert lines[1:] == [
                "INFO Not connected yet: first on first, 1 consumer",
                "INFO Not connected yet: second on second, 1-2 consumers",
                f"WARNING Application started, not connected yet: waiting for broker {broker}",
            ]
            async with anyio.create_task_group() as group:
                group.start_soon(send_to_both, application, "hello")  # waits, too
                service = await started(port)
            await heard.twice("hello")
            assert [line for line in shown(caplog) if " is back after " in line]
        await service.stop()


async def test_an_application_whose_broker_never_comes_can_be_stopped() -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with JmsApplication(Heard(), settings=settings(free_port())):
            pass


async def test_a_listener_of_another_broker_does_not_wait(pyjms_broker_url: str) -> None:
    handled = anyio.Event()

    @jms_listener("work", container_factory="other", id="other")
    async def handle(text: str) -> None:
        handled.set()

    others = {"other": {"broker_url": pyjms_broker_url}}
    with anyio.fail_after(LONGEST_WAIT):
        configured = settings(free_port(), brokers=others)
        async with JmsApplication(Heard(), handle, settings=configured) as application:
            await application.templates["other"].convert_and_send("work", "x")
            await handled.wait()


async def test_a_signal_ends_a_start_that_waits_for_a_broker() -> None:
    waiting = anyio.Event()
    ended: list[str] = []

    @on_startup
    async def warm_up(template: Annotated[JmsTemplate, Provide["jms_template"]]) -> None:
        waiting.set()
        try:
            await template.convert_and_send("q", "x")
        finally:
            ended.append("hook")

    with anyio.fail_after(LONGEST_WAIT):
        application = JmsApplication(warm_up, settings=settings(free_port()))
        async with anyio.create_task_group() as group:
            group.start_soon(application.run_async)
            await waiting.wait()
            application.request_stop()
    assert ended == ["hook"]
    assert not application.is_running
