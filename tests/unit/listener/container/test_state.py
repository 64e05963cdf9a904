"""The life cycle of a container: its transitions, and the outcome of a start."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest

from pyjms.listener.container import ContainerEvent, ContainerState, LifeCycle, StartOutcome
from pyjms.runtime.event_loop import spawn

INITIALIZE, START, STOP, DRAINED, SHUT_DOWN = (
    ContainerEvent.INITIALIZE,
    ContainerEvent.START,
    ContainerEvent.STOP,
    ContainerEvent.DRAINED,
    ContainerEvent.SHUT_DOWN,
)


def after(*events: ContainerEvent) -> LifeCycle:
    life_cycle = LifeCycle()
    for event in events:
        assert life_cycle.advance(event)
    return life_cycle


@pytest.mark.parametrize(
    ("events", "state", "active", "running"),
    [
        ((), ContainerState.CREATED, False, False),
        ((INITIALIZE,), ContainerState.INITIALIZED, True, False),
        ((INITIALIZE, START), ContainerState.RUNNING, True, True),
        ((INITIALIZE, START, START), ContainerState.RUNNING, True, True),
        ((INITIALIZE, START, STOP), ContainerState.STOPPING, True, False),
        ((INITIALIZE, START, STOP, START), ContainerState.RUNNING, True, True),
        ((INITIALIZE, START, STOP, DRAINED), ContainerState.STOPPED, True, False),
        ((INITIALIZE, START, STOP, DRAINED, START), ContainerState.RUNNING, True, True),
        ((INITIALIZE, START, SHUT_DOWN), ContainerState.CLOSED, False, False),
        ((SHUT_DOWN,), ContainerState.CLOSED, False, False),
        ((SHUT_DOWN, SHUT_DOWN, INITIALIZE), ContainerState.INITIALIZED, True, False),
    ],
)
def test_states_and_the_flags_derived_from_them(
    events: Any, state: ContainerState, active: bool, running: bool
) -> None:
    life_cycle = after(*events)
    assert (life_cycle.state, life_cycle.active, life_cycle.running) == (state, active, running)


@pytest.mark.parametrize(
    ("events", "refused"),
    [
        ((), START),
        ((), STOP),
        ((INITIALIZE,), STOP),
        ((INITIALIZE,), INITIALIZE),
        ((INITIALIZE, START, STOP), STOP),
        ((INITIALIZE, START), DRAINED),
        ((INITIALIZE, SHUT_DOWN), START),
        ((INITIALIZE, SHUT_DOWN), STOP),
    ],
)
def test_what_the_table_does_not_have_changes_nothing(events: Any, refused: Any) -> None:
    life_cycle = after(*events)
    before = life_cycle.state
    assert not life_cycle.advance(refused)
    assert life_cycle.state is before


def test_every_state_can_be_shut_down() -> None:
    for length in range(6):
        for events in itertools.product(ContainerEvent, repeat=length):
            life_cycle = LifeCycle()
            for event in events:
                life_cycle.advance(event)
            assert life_cycle.advance(SHUT_DOWN)


@pytest.mark.parametrize("event", [START, SHUT_DOWN])
async def test_a_paused_container_is_waited_for(event: Any) -> None:
    life_cycle = after(INITIALIZE, START, STOP)
    woken = anyio.Event()

    async def wait() -> None:
        await life_cycle.wait_while_paused()
        woken.set()

    task = spawn(wait, name="waits")
    await anyio.lowlevel.checkpoint()
    assert not woken.is_set()
    life_cycle.advance(event)
    await woken.wait()
    await task.wait()


async def test_the_first_outcome_of_a_start_counts() -> None:
    outcome = StartOutcome()
    await outcome.wait()  # nothing has started
    assert not outcome.settle(RuntimeError("nobody waits"))
    outcome.begin(has_consumer=False)
    error = RuntimeError("refused")
    assert outcome.settle(error)
    assert not outcome.settle()
    with pytest.raises(RuntimeError, match="refused"):
        await outcome.wait()
    outcome.begin(has_consumer=True)
    await outcome.wait()
