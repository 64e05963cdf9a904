"""Where a lone sender's records are written follows what it takes."""

from __future__ import annotations

from pyjms_broker.store.journal.journal import InlineWritePolicy


def run(choice: InlineWritePolicy, jobs: int, loop: float, thread: float) -> list[bool]:
    """Do so many jobs, with these times; returns where they ran."""
    ways = []
    for _ in range(jobs):
        on_loop = choice.use_loop()
        choice.record(on_loop, loop if on_loop else thread)
        ways.append(on_loop)
    return ways


def test_the_quicker_way_is_used_and_the_other_tried_now_and_then() -> None:
    ways = run(InlineWritePolicy(), 640, loop=0.0001, thread=0.00015)
    assert ways.count(False) == 10
    assert ways[:63] == [True] * 63


def test_a_busy_machine_may_give_the_thread_its_turn_sooner() -> None:
    choice = InlineWritePolicy()
    run(choice, 128, loop=0.0001, thread=0.00015)
    assert run(choice, 64, loop=0.0019, thread=0.0004).count(True) < 10
    ways = run(choice, 640, loop=0.0001, thread=0.00015)
    assert ways[-64:].count(True) == 63, "and back"


def test_a_slow_disk_never_stops_the_loop_for_long() -> None:
    ways = run(InlineWritePolicy(), 640, loop=0.010, thread=0.011)
    assert ways.count(True) == 1 + 10
