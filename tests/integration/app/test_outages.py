"""The log of an application whose broker is down, over a real socket and in real time."""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from pyjms import (
    ConnectionFailedException,
    InvalidSelectorException,
    JmsApplication,
    PyjmsSettings,
    jms_listener,
)
from pyjms.aio import ConnectionFactory as AioConnectionFactory
from pyjms.listener.outages import leave_losses_to_recovery
from pyjms_broker.service import BrokerService
from tests.kit.values import present


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def started(port: int) -> BrokerService:
    service = BrokerService("away", persistent=False)
    service.add_connector(f"tcp://127.0.0.1:{port}", name="openwire")
    await service.start()
    return service


class Heard:
    """Two listeners of one broker, and the messages they received."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.changed = anyio.Event()

    def add(self, text: str) -> None:
        self.counts[text] += 1
        self.changed.set()
        self.changed = anyio.Event()

    @jms_listener("first", id="first")
    async def first(self, text: str) -> None:
        self.add(text)

    @jms_listener("second", id="second", concurrency="2")
    async def second(self, text: str) -> None:
        self.add(text)

    async def twice(self, text: str) -> None:
        while self.counts[text] < 2:
            await self.changed.wait()


async def send_to_both(application: JmsApplication, text: str) -> None:
    for queue in ("first", "second"):
        await application.template.convert_and_send(queue, text)


def shown(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that an outage writes at INFO and above."""
    return [
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if record.name.startswith(("pyjms.listener", "pyjms.app.application", "pyjms.connection"))
    ]


@contextmanager
def warned() -> Iterator[anyio.Event]:
    """Yield an event that is set by the next warning about an outage."""
    event = anyio.Event()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda _record: event.set()  # type: ignore[method-assign, assignment]
    logger = logging.getLogger("pyjms.listener.outages")
    logger.addHandler(handler)
    try:
        yield event
    finally:
        logger.removeHandler(handler)


def settings(port: int, **more: Any) -> PyjmsSettings:
    values = {"jms": {"listener": {"recovery_interval": "50ms"}}, **more}
    return PyjmsSettings(**values).with_broker_url(f"tcp://127.0.0.1:{port}")


async def test_one_warning_for_a_broker_and_one_line_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="pyjms")
    port = free_port()
    heard = Heard()
    broker = f"tcp://127.0.0.1:{port}"
    async with JmsApplication(heard, settings=settings(port)) as application:
        lines = shown(caplog)
        assert len([line for line in lines if "cannot be reached" in line]) == 1
        assert lines[0].startswith(f"WARNING Broker {broker} cannot be reached: ")
        assert lines[1:] == [
            "INFO Not connected yet: first on first, 1 consumer",
            "INFO Not connected yet: second on second, 1-2 consumers",
            f"WARNING Application started, not connected yet: waiting for broker {broker}",
        ]
        with pytest.raises(ConnectionFailedException) as refused:
            await application.template.convert_and_send("first", "x")
        assert str(refused.value) in lines[0]

        caplog.clear()
        service = await started(port)
        await send_to_both(application, "hello")
        await heard.twice("hello")
        (line,) = shown(caplog)
        assert line.startswith(f"INFO Broker {broker} is back after ")

        caplog.clear()
        with warned() as warning:
            await service.stop()
            await warning.wait()
        service = await started(port)
        await send_to_both(application, "again")
        await heard.twice("again")
        levels = Counter(line.split()[0] for line in shown(caplog) if "Broker " in line)
        assert levels == {"WARNING": 1, "INFO": 1}
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert [record.name for record in warnings] == ["pyjms.listener.outages"]
    await service.stop()


async def test_what_a_broker_reports_of_a_connection_that_lasts_is_a_warning(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="pyjms.listener.outages")
    async with await AioConnectionFactory(pyjms_broker_url).create_connection() as connection:
        leave_losses_to_recovery(connection, "orders")
        present(connection.exception_listener)(
            ConnectionFailedException("the peer closed the connection")
        )
        present(connection.exception_listener)(InvalidSelectorException("too many steps"))
        heard_own: list[Exception] = []
        own = connection.exception_listener = heard_own.append
        leave_losses_to_recovery(connection, "orders")
        assert connection.exception_listener is own
    levels = [record.levelname for record in caplog.records if record.name.endswith("outages")]
    assert levels == ["DEBUG", "WARNING"]
    assert caplog.records[-1].getMessage() == "Connection of listener orders: too many steps"


async def test_a_connection_of_a_single_receive_reports_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at_work, is_over = anyio.Event(), anyio.Event()

    @jms_listener("held", id="held")
    async def hold(text: str) -> None:
        at_work.set()
        await is_over.wait()

    port = free_port()
    service = await started(port)
    uncached = settings(port, listeners={"held": {"cache_level": "none"}})
    async with JmsApplication(hold, settings=uncached) as application:
        await application.template.convert_and_send("held", "hello")
        await at_work.wait()
        with warned() as warning:
            await service.stop()
            is_over.set()
            await warning.wait()
    warnings = [record.name for record in caplog.records if record.levelno >= logging.WARNING]
    assert "pyjms.listener.outages" in warnings
    assert not [name for name in warnings if name.startswith("pyjms.client")]


async def test_attempts_of_many_processes_are_spread(pyjms_broker_url: str) -> None:
    heard = Heard()
    configured = PyjmsSettings().with_broker_url(pyjms_broker_url)
    async with JmsApplication(heard, settings=configured) as application:
        container: Any = application.registry["first"]
        waits = {container.back_off.start().next_back_off() for _ in range(20)}
        assert len(waits) > 1
        assert all(5 <= wait <= 6 for wait in waits)
