"""Groups of warnings, their pages, and those that are muted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms_broker.console.model.warnings import Mutes, find_warnings
from pyjms_broker.service import BrokerService
from tests.kit.web.console import Console, console_of, notice_of

COUNT = 197
LINE = f"{COUNT} queues with messages have no consumer"


@pytest.fixture
async def unread() -> AsyncIterator[Console]:
    """The console of a broker with many queues that nobody reads."""
    queues = [Queue(f"q{number}") for number in range(COUNT)]
    async with (
        BrokerService("unread", persistent=False, destinations=queues) as service,
        console_of(service) as console,
    ):
        for each in queues:
            service.region_broker.destinations()[each].statistics.messages = 1
        yield console


def badge_of(text: str) -> str:
    """Return the number beside the page's entry in the menu; empty: there is none."""
    found = re.search(r'<span class="badge[^>]*>(\d+)</span>', text)
    return "" if found is None else found[1]


@pytest.mark.fact("activemq-edges W31")
async def test_many_queues_without_consumers_are_one_line(unread: Console) -> None:
    home = await unread.text("")
    assert LINE in home
    assert "1 warning<" in home
    assert badge_of(home) == "1"
    text = await unread.text("warnings")
    assert LINE in text
    assert len(re.findall(r">q\d+</a>: it has 1 message, and no consumer", text)) == 5
    assert f">All {COUNT}</a>" in text


async def test_the_pages_of_a_group_have_all_its_members(unread: Console) -> None:
    names: list[str] = []
    for page in range(1, 5):
        text = await unread.text("warnings", kind="Nobody listens", page=page)
        names += re.findall(r">(q\d+)</a>: it has", text)
    assert sorted(names) == sorted(f"q{number}" for number in range(COUNT))


@pytest.mark.fact("activemq-edges W31")
async def test_a_muted_kind_is_counted_and_comes_back(unread: Console) -> None:
    answer = await unread.act("mute", title="Nobody listens", hours="8")
    assert notice_of(answer) == "All warnings of the kind Nobody listens are muted for 8 hours."
    home = await unread.text("")
    assert (LINE in home, badge_of(home)) == (False, "")
    assert f"{COUNT} of them muted" in home
    text = await unread.text("warnings")
    assert f"All {COUNT} warnings are muted." in text
    assert "7 h 59 min" in text
    await unread.act("unmute", title="Nobody listens", where="")
    assert LINE in await unread.text("")


async def test_one_warning_of_a_kind_is_muted(unread: Console) -> None:
    await unread.act("mute", title="Nobody listens", where="q5", hours="1")
    text = await unread.text("warnings")
    assert f"{COUNT - 1} queues with messages have no consumer" in text
    assert "1 warning of these kinds is not shown" in text


@pytest.mark.parametrize("hours", ["0", "-1", "745", "x", "٣", "9" * 5000])
async def test_the_time_of_a_mute_is_limited(unread: Console, hours: str) -> None:
    answer = await unread.act("mute", title="Nobody listens", hours=hours)
    assert "write 1 to 744" in notice_of(answer)


async def test_a_mute_ends_with_its_time(unread: Console) -> None:
    async with VirtualClock() as clock:
        groups = await find_warnings(unread.service.management.context)
        mutes = Mutes()
        mutes.add("Nobody listens", "", 3600.0)
        assert mutes.divide(groups) == ([], COUNT)
        await clock.advance(3601)
        assert mutes.divide(groups) == (groups, 0)
        assert mutes.all() == []


def test_mutes_are_limited() -> None:
    mutes = Mutes()
    for number in range(1500):
        mutes.add("Nobody listens", f"q{number}", 3600.0 + number)
    assert len(mutes.all()) == 1000
    assert mutes.all()[-1].where == "q1499"
