"""The history of a broker with a web server: its settings, its file, and Jolokia."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms_broker.management.history import History
from tests.kit.waiting import until
from tests.kit.web.sites import WebBroker, web_broker

ORDERS = "destinationType=Queue,destinationName=orders"


def history_of(broker: WebBroker) -> History:
    found = broker.service.history
    assert found is not None
    return found


async def exec_history(broker: WebBroker, keys: str, name: str) -> dict[str, Any]:
    """Invoke the operation `history` of a view, and return Jolokia's answer."""
    view = broker.service.management.context.names.broker().text
    request = {
        "type": "exec",
        "mbean": f"{view},{keys}" if keys else view,
        "operation": "history",
        "arguments": [name],
    }
    async with broker.client() as client:
        headers = {"origin": broker.url}
        answer = await client.post("/api/jolokia", json=request, headers=headers)
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.fact("activemq-edges JX6")
async def test_jolokia_returns_the_history_of_the_broker_and_of_a_queue() -> None:
    async with web_broker(destinations=[Queue("orders")]) as broker:
        orders = broker.service.region_broker.destinations()[Queue("orders")]
        orders.statistics.messages = 3
        await history_of(broker).sample()
        for keys in ("", ORDERS):
            found = (await exec_history(broker, keys, "hour"))["value"]
            assert found["step"] == 5
            assert len(found["depth"]) == 720
            assert found["depth"][-2:] == [None, 3]
            assert found["start"] % 5000 == 0
        assert len((await exec_history(broker, "", "day"))["value"]["in"]) == 1440
        assert "write hour or day" in str(await exec_history(broker, "", "week"))


@pytest.mark.fact("activemq-edges JX6")
async def test_rates_are_attributes_once_they_are_known() -> None:
    async with web_broker(destinations=[Queue("orders")]) as broker:
        management, orders = broker.service.management, Queue("orders")
        view = management.view(management.context.names.destination(orders))
        whole = management.view(management.context.names.broker())
        assert (view["EnqueueRate"], whole["DequeueRate"]) == (None, None)
        view.target.it.statistics.enqueues = 1_000_000
        await history_of(broker).sample()
        assert isinstance(view["EnqueueRate"], float)
        assert view["EnqueueRate"] > 0
        assert (view["DequeueRate"], whole["DequeueRate"]) == (0.0, 0.0)
        assert whole["EnqueueRate"] == view["EnqueueRate"]


async def test_a_broker_may_record_nothing(tmp_path: Path) -> None:
    async with web_broker(web={"history": False}, destinations=[Queue("orders")]) as broker:
        assert "set web.history in broker.yaml" in str(await exec_history(broker, "", "hour"))
        management = broker.service.management
        view = management.view(management.context.names.destination(Queue("orders")))
        assert view["EnqueueRate"] is None


async def test_the_number_of_destinations_with_a_history() -> None:
    queues = [Queue("orders"), Queue("bills")]
    async with web_broker(web={"history_destinations": 1}, destinations=queues) as broker:
        for queue, count in zip(queues, (9, 5), strict=True):
            broker.service.region_broker.destinations()[queue].statistics.enqueues = count
        await history_of(broker).sample()
        history = history_of(broker)
        assert [history.read("hour", each) is not None for each in queues] == [True, False]


async def test_a_history_is_kept_over_restarts(tmp_path: Path) -> None:
    attributes: dict[str, Any] = {
        "broker_name": "kept",
        "persistent": True,
        "data_directory": tmp_path,
    }
    queues = [Queue("orders")]
    async with web_broker(destinations=queues, **attributes) as broker:
        broker.service.region_broker.destinations()[queues[0]].statistics.messages = 3
        await history_of(broker).sample()
    assert (tmp_path / "kept" / "history.gz").stat().st_size < 10_000
    async with web_broker(**attributes) as broker:
        await until(lambda: history_of(broker).read("hour", queues[0]) is not None)
        found = (await exec_history(broker, ORDERS, "hour"))["value"]
        assert 3 in found["depth"]


async def test_a_broker_in_memory_saves_no_history(tmp_path: Path) -> None:
    async with web_broker(data_directory=tmp_path) as broker:
        await history_of(broker).sample()
    assert [*tmp_path.iterdir()] == []


async def test_the_time_between_two_writes(tmp_path: Path) -> None:
    """A broker that is killed loses what is newer than its last write."""
    async with VirtualClock() as clock:
        web = {"history_save_interval": 30.0}
        async with web_broker(
            web=web, broker_name="saved", persistent=True, data_directory=tmp_path
        ):
            file = tmp_path / "saved" / "history.gz"
            assert not file.exists()
            for _ in range(5):
                await clock.advance(5)
            assert not file.exists()
            for _ in range(6):
                await clock.advance(5)
            await until(file.exists)  # a thread writes it
