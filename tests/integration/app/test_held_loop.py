"""The listener whose handler holds the event loop is named, counted, and shown."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial, wraps

import pytest

from pyjms import JmsApplication, jms_listener
from pyjms.listener import (
    JmsListenerEndpointRegistrar,
    MessageListenerAdapter,
    SimpleJmsListenerEndpoint,
    jms_listener_configurer,
)
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.testing.app import JmsTestApp

LOGGER = "pyjms.app.held_loop"

is_noticed: list[Callable[[], bool]] = [lambda: True]
"""Tells handlers when to end; set by each test."""


def hold() -> None:
    while not is_noticed[0]():
        time.sleep(0.005)


class Plain:
    @jms_listener("in", id="slow")
    async def on_it(self, text: str) -> None:
        hold()


def logged(handler: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    @wraps(handler)
    async def call(text: str) -> None:
        await handler(text)

    return call


@jms_listener("in", id="slow")
@logged
async def decorated(text: str) -> None:
    hold()


class Delegate:
    async def handle_message(self, text: str) -> None:
        hold()


@jms_listener_configurer()
def adapter(registrar: JmsListenerEndpointRegistrar) -> None:
    listener = MessageListenerAdapter(Delegate())
    registrar.register_endpoint(
        SimpleJmsListenerEndpoint(destination="in", id="slow", message_listener=listener)
    )


@jms_listener("other", id="other")
async def other(text: str) -> None: ...


@pytest.mark.parametrize(
    "target", [Plain(), decorated, adapter], ids=["method", "decorated", "adapter"]
)
async def test_the_listener_that_holds_the_event_loop_is_named(
    target: object, jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    application = await jms_app.start(target, other)
    (line,) = await lines_after_holds(1, application, jms_app, caplog)
    assert line.startswith("Listener slow has held the event loop for more than 0.5 s")
    assert "app/test_held_loop.py" in line


async def test_it_is_logged_once_and_always_counted(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    application = await jms_app.start(Plain(), other)
    lines = await lines_after_holds(2, application, jms_app, caplog)
    assert len(lines) == 1
    assert {each.id: each.loop_holds for each in application.health().listeners} == {
        "slow": 2,
        "other": 0,
    }


def has_held(container: AbstractMessageListenerContainer, number: int) -> bool:
    return container.loop_holds == number


async def lines_after_holds(
    count: int,
    application: JmsApplication,
    jms_app: JmsTestApp,
    caplog: pytest.LogCaptureFixture,
) -> list[str]:
    """Let the listener hold the loop until the watchdog has noticed, `count` times."""
    container = application.registry["slow"]
    for number in range(1, count + 1):
        is_noticed[0] = partial(has_held, container, number)
        await jms_app.template.convert_and_send("in", "x")
        await jms_app.drained("in")
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]
