"""The limit of failed logins: what counts together, and how much is kept; and the turns of checks."""

from __future__ import annotations

import tracemalloc

import anyio
import anyio.abc
import pytest

from pyjms.errors import JMSSecurityException
from pyjms.testing.clock import VirtualClock
from pyjms_broker.security.failed_logins import FailedLogins, LoginTurns, Origin, address_key

HERE = Origin("10.0.0.1")


@pytest.mark.parametrize(
    ("remote", "key"),
    [
        ("tcp://10.0.0.1:5000", "10.0.0.1"),
        ("ssl://10.0.0.1:5001", "10.0.0.1"),
        ("tcp://[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        ("tcp://[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::/64"),
        ("tcp://2001:db8:1:2:3:4:5:7:5000", "2001:db8:1:2::/64"),
        ("tcp://[fe80::1%eth0]:5000", "fe80::/64"),
        ("vm://broker#3", None),
        (None, None),
        ("tcp://unknown", "tcp"),
    ],
)
def test_what_an_address_counts_for(remote: str | None, key: str | None) -> None:
    assert address_key(remote) == key


def failed(*users: str | None, origin: Origin = HERE) -> FailedLogins:
    limit = FailedLogins(3, 60)
    for user in users:
        limit.count(origin, user)
    return limit


@pytest.mark.fact("activemq-edges SE20")
@pytest.mark.parametrize(
    ("users", "user", "is_refused"),
    [
        ((None, None, None), None, True),
        ((None, None), None, False),
        ((None, None, None), "alice", False),
        (("alice", "alice", "alice"), "alice", True),
        (("alice", "alice", "alice"), "bob", False),
        (("alice", "alice", "alice"), None, True),
        (("alice", "alice", None, None, None), "alice", False),
        (("alice", "bob", None), None, True),
    ],
)
def test_who_is_refused(users: tuple[str | None, ...], user: str | None, is_refused: bool) -> None:
    assert failed(*users).is_refused(HERE, user) == is_refused


@pytest.mark.parametrize("other", [Origin("10.0.0.1", is_web=True), Origin("10.0.0.2"), None])
def test_other_ports_and_addresses_are_not_refused(other: Origin | None) -> None:
    limit = failed(None, None, None)
    assert not limit.is_refused(other, None)
    limit.check(other)


def test_the_error_is_the_same_for_all_users() -> None:
    """It tells nothing about a name: after enough failures, all of them get it."""
    with pytest.raises(JMSSecurityException, match=r"Too many failed logins from 10\.0\.0\.1"):
        failed("alice", None, "bob").check(HERE)


async def test_failures_are_forgotten_after_the_period() -> None:
    async with VirtualClock() as clock:
        limit = failed("alice", "alice", "alice")
        await clock.advance(61)
        assert not limit.is_refused(HERE, "alice")


@pytest.mark.parametrize("many", ["origins", "users"])
def test_memory_is_bounded(many: str) -> None:
    limit = FailedLogins(2, 60)
    tracemalloc.start()
    try:
        for number in range(40_000):
            limit.count(Origin(f"b{number}") if many == "origins" else HERE, f"u{number}")
        assert tracemalloc.get_traced_memory()[0] < 10 << 20
    finally:
        tracemalloc.stop()


def test_without_a_limit_nothing_is_refused() -> None:
    limit = FailedLogins(0, 60)
    for _ in range(100):
        limit.count(HERE, None)
    assert not limit.is_refused(HERE, None)
    limit.check(HERE)


@pytest.mark.fact("activemq-edges SE21")
async def test_the_addresses_take_turns() -> None:
    turns, order, may_end = LoginTurns(1), list[str](), anyio.Event()

    async def log_in(address: str) -> None:
        async with turns.turn(address):
            order.append(address)
            await may_end.wait()

    async with anyio.create_task_group() as tasks:
        for address in ["a"] * 5 + ["b"] * 2 + ["c"]:
            tasks.start_soon(log_in, address)
            await anyio.wait_all_tasks_blocked()
        assert order == ["a"]
        may_end.set()
    assert order == ["a", "a", "b", "c", "a", "b", "a", "a"]


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_cancelled_login_leaves_its_turn_to_the_next(has_turn: bool) -> None:
    turns, entered = LoginTurns(1), list[str]()

    async def log_in(name: str, *, task_status: anyio.abc.TaskStatus[anyio.CancelScope]) -> None:
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            async with turns.turn(name):
                entered.append(name)

    async with anyio.create_task_group() as tasks:
        async with turns.turn("first"):
            scope = await tasks.start(log_in, "cancelled")
            await tasks.start(log_in, "next")
            await anyio.wait_all_tasks_blocked()
            if not has_turn:
                scope.cancel()
                await anyio.wait_all_tasks_blocked()
        scope.cancel()
    assert entered[-1] == "next"
    async with turns.turn("later"):
        pass
