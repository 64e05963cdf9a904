"""`pyjms broker top` at a running broker: its screen, driven by keys, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from pyjms import ConnectionFactory
from pyjms_broker.cli.management.client import JolokiaClient
from pyjms_broker.cli.management.top import COLUMNS, Choice, Sampler, TopApp
from tests.kit.brokers.managed import ManagedBroker
from tests.kit.processes.command_line import pyjms

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

BROKER = "org.apache.activemq:type=Broker,brokerName=managed"


def invoke(managed: ManagedBroker, name: str, operation: str, *arguments: object) -> None:
    async def call() -> None:
        await managed.service.management.invoke(name, operation, *arguments)

    managed.call(call)


def send(managed: ManagedBroker, queue: str, count: int = 1) -> None:
    for _ in range(count):
        invoke(
            managed,
            f"{BROKER},destinationType=Queue,destinationName={queue}",
            "sendTextMessage",
            "x",
        )


@pytest.fixture
def furnished(managed: ManagedBroker) -> ManagedBroker:
    """Queues a (1 message), b (3) and [red] (none), and a topic."""
    for name in ("a", "b", "[red]"):
        invoke(managed, BROKER, "addQueue", name)
    invoke(managed, BROKER, "addTopic", "news")
    send(managed, "a")
    send(managed, "b", 3)
    return managed


def app_of(url: str, interval: float = 0.2) -> TopApp:
    sampler = Sampler(JolokiaClient(url, timeout=10))
    return TopApp(sampler, sampler.sample(), interval)


def names(app: TopApp) -> list[str]:
    table = app.query_one("#destinations", DataTable)
    return [str(table.get_row_at(row)[0]) for row in range(table.row_count)]


def cell(app: TopApp, name: str, title: str) -> str:
    table = app.query_one("#destinations", DataTable)
    column = [each for each, _ in COLUMNS].index(title)
    return str(table.get_row_at(names(app).index(name))[column])


def text(app: TopApp, part: str) -> str:
    return str(app.query_one(part, Static).content)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until the screen shows it; the test's own time limit ends the wait."""
    while not condition():
        await pilot.pause(0.05)


async def test_destinations_are_shown_the_fullest_first(furnished: ManagedBroker) -> None:
    app = app_of(furnished.url)
    async with app.run_test(size=(140, 40)) as pilot:
        assert names(app) == ["b", "a", "[red]", "news"]
        assert (cell(app, "b", "Pending"), cell(app, "b", "In/s")) == ("3", "-")
        summary = text(app, "#summary")
        assert summary.startswith("managed ")
        assert "messages 4" in summary
        assert "memory 0 %   store 0 %   temp 0 %" in summary
        await pilot.pause()


async def test_counters_and_rates_are_live(furnished: ManagedBroker) -> None:
    app = app_of(furnished.url)
    async with app.run_test(size=(140, 40)) as pilot:
        send(furnished, "a", 5)
        await until(
            pilot,
            lambda: cell(app, "a", "Pending") == "6" and "in/s -" not in text(app, "#summary"),
        )
        assert names(app)[0] == "a"
        await until(pilot, lambda: cell(app, "a", "In/s") == "0.0")  # nothing came since


async def test_rates_are_messages_a_second(managed: ManagedBroker) -> None:
    invoke(managed, BROKER, "addQueue", "a")
    times = iter([10.0, 12.0, 14.0])
    sampler = Sampler(JolokiaClient(managed.url), lambda: next(times))
    assert sampler.sample().rate("enqueue_rate") is None
    send(managed, "a", 6)
    sample = sampler.sample()
    assert sample.rate("enqueue_rate") == 3.0
    invoke(managed, BROKER, "resetStatistics")
    assert sampler.sample().rate("enqueue_rate") == 0.0


async def test_keys_sort_filter_and_hold(furnished: ManagedBroker) -> None:
    app = app_of(furnished.url)
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("r")
        assert names(app) == ["[red]", "news", "a", "b"]
        for _ in range(len(COLUMNS) - 2):
            await pilot.press("s")
        assert names(app) == ["[red]", "a", "b", "news"]
        assert "by Name ascending" in text(app, "#status")
        await pilot.press("t")
        assert names(app) == ["[red]", "a", "b"]
        await pilot.press("t")
        assert names(app) == ["news"]
        await pilot.press("t", "slash", "R", "e", "enter")
        assert names(app) == ["[red]"]
        await pilot.press("slash", "escape")
        assert len(names(app)) == 4
        assert not app.query_one("#filter", Input).display
        await pilot.press("space")
        assert "paused" in text(app, "#status")
        send(furnished, "a")
        await pilot.pause(0.5)
        assert cell(app, "a", "Pending") == "1"
        await pilot.press("space")
        await until(pilot, lambda: cell(app, "a", "Pending") == "2")


async def test_a_destination_shows_its_consumers(furnished: ManagedBroker) -> None:
    factory = ConnectionFactory(furnished.openwire, client_id="shop")
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session()
        session.create_consumer(session.create_queue("b"))
        app = app_of(furnished.url)
        async with app.run_test(size=(140, 40)) as pilot:
            consumers = app.query_one("#consumers", DataTable)
            displayed = [consumers.display]
            await pilot.press("enter")
            await until(pilot, lambda: consumers.row_count == 1)
            assert [*displayed, consumers.display] == [False, True]
            row = [str(each) for each in consumers.get_row_at(0)]
            assert row[0] == "shop"
            await until(pilot, lambda: str(consumers.get_row_at(0)[1]) == "3")
            await pilot.press("escape")
            assert not consumers.display


async def test_a_broker_that_ends_is_said_and_awaited(furnished: ManagedBroker) -> None:
    app = app_of(furnished.url)
    async with app.run_test(size=(140, 40)) as pilot:
        furnished.call(furnished.service.stop)
        await until(pilot, lambda: "cannot be reached" in text(app, "#failure"))
        assert names(app)[0] == "b"  # what was read last stays
        await pilot.press("q")
        await pilot.pause()
    assert app.return_code == 0


def test_equal_values_are_in_the_order_of_their_names(
    furnished: ManagedBroker, anyio_backend: str
) -> None:
    rows = Sampler(JolokiaClient(furnished.url)).sample().destinations
    assert [row["Name"] for row in Choice(column=4).of(rows)] == ["[red]", "a", "b", "news"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "top needs a terminal"),
        (("--interval", "50ms"), "the minimum is 200ms"),
    ],
)
def test_what_cannot_be_shown_is_refused(anyio_backend: str, arguments: Any, reason: str) -> None:
    result = pyjms("broker", "top", *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
