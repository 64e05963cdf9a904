"""`pyjms broker history`: tables and JSON of what was recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.processes.command_line import objects, pyjms


@pytest.fixture(scope="module")
def recorded() -> Iterator[ManagedBroker]:
    """A broker with one sample: three messages of orders."""
    queues = [Queue("orders"), Queue("idle")]
    service = BrokerService(
        "recorded", persistent=False, destinations=queues, web=WebConfiguration(port=0)
    )
    with managed_broker(service) as broker:
        orders = service.region_broker.destinations()[queues[0]].statistics
        orders.messages = orders.enqueues = 3

        async def sample() -> None:
            assert service.history is not None
            await service.history.sample()

        broker.call(sample)
        yield broker


@pytest.mark.parametrize("since", ["5m", "1h"])
def test_the_history_of_a_queue_is_a_table(recorded: ManagedBroker, since: str) -> None:
    found = pyjms("broker", "history", "orders", "--since", since, "--url", recorded.url)
    assert found.exit_code == 0, found.output
    head, *rows = found.stdout.splitlines()
    assert head.split() == ["time", "depth", "in/s", "out/s", "consumers", "memory"]
    assert rows[0].split()[2] == "3"
    assert len(rows) <= 2


def test_the_history_of_the_broker_is_json_too(recorded: ManagedBroker) -> None:
    found = pyjms("broker", "history", "--step", "5s", "--json", "--url", recorded.url)
    rows = objects(found)
    assert rows[0]["depth"] == 3
    assert rows[0]["connections"] == 0
    assert rows[0]["time"] % 5000 == 0
    assert 0 <= _clock.time_ms() - rows[0]["time"] < 60_000


def test_a_minute_that_is_not_over_is_not_in_the_history_of_a_day(recorded: ManagedBroker) -> None:
    found = pyjms("broker", "history", "orders", "--since", "24h", "--url", recorded.url)
    assert found.exit_code == 0, found.output
    assert "nothing was recorded" in found.stderr or len(found.stdout.splitlines()) == 2


def test_what_has_no_history_is_an_error(recorded: ManagedBroker) -> None:
    url = ("--url", recorded.url)
    for arguments, text, code in (
        (("idle",), "not among the 200 busiest", 1),
        (("missing",), "There is no queue missing", 1),
        (("--since", "48h"), "a day is recorded", 2),
    ):
        found = pyjms("broker", "history", *arguments, *url)
        assert found.exit_code == code
        assert text in found.stderr
