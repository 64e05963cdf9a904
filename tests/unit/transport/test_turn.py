from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial

import anyio
import pytest
import sniffio

from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import LoopHandle, Waiter
from pyjms.runtime.turn import Turn
from pyjms.testing.clock import VirtualClock
from pyjms.transport.tcp import EARLY_BYTES, SocketWriter
from tests.kit.waiting import until


class Loop:
    """The passes of a loop, one at a time."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.waiting: list[Callable[[], object]] = []
        self.turn = Turn(self.waiting.append)

    def does(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def next_pass(self) -> None:
        waiting, self.waiting[:] = self.waiting[:], []
        for function in waiting:
            function()


def test_a_turn_sends_before_it_runs_deferred_work() -> None:
    loop = Loop()

    def late() -> None:
        loop.done.append("late")
        loop.turn.send(loop.does("late send"))

    def take_in() -> None:
        loop.turn.send(loop.does("send"))
        assert loop.turn.defer(late)
        loop.done.append("taken in")

    loop.turn.run(take_in)
    assert loop.done == ["taken in", "send", "late"]
    loop.next_pass()
    assert loop.done[3:] == ["late send"]
    assert not loop.waiting


def test_finish_functions_of_the_first_turn_run_between_its_sends() -> None:
    loop = Loop()
    finished = []

    def finish() -> None:
        loop.done.append("finish")
        loop.turn.send(loop.does("answer"))

    def take_in() -> None:
        loop.turn.send(loop.does("send"))
        finished.append(loop.turn.finish_with(finish))

    loop.turn.run(take_in)
    loop.turn.run(take_in)
    assert finished == [True, False], "others are there in this pass: they go together"
    assert loop.done == ["send", "finish", "answer"]
    loop.next_pass()
    assert loop.done == ["send", "finish", "answer", "send"]
    assert not loop.waiting
    assert not loop.turn.finish_with(loop.does("never")), "there is no turn"


def test_a_turn_that_is_alone_sends_at_its_end_and_leaves_the_pass_to_others() -> None:
    loop = Loop()
    loop.turn.run(partial(loop.turn.send, loop.does("alone")), is_alone=True)
    loop.turn.run(partial(loop.turn.send, loop.does("first")))
    assert loop.done == ["alone", "first"]
    loop.turn.run(partial(loop.turn.send, loop.does("alone again")), is_alone=True)
    assert loop.done[2:] == ["alone again"]
    loop.next_pass()
    assert loop.done[3:] == []


def test_later_turns_of_a_pass_send_together_in_the_next_pass() -> None:
    loop = Loop()
    for name in "abc":
        loop.turn.run(partial(loop.turn.send, loop.does(name)))
    assert loop.done == ["a"]
    assert len(loop.waiting) == 1
    loop.next_pass()
    assert loop.done == ["a", "b", "c"]
    loop.turn.run(lambda: loop.turn.send(loop.does("d")))
    assert loop.done[3:] == ["d"]


def test_outside_a_turn_the_next_pass_sends_and_nothing_is_deferred() -> None:
    loop = Loop()
    loop.turn.send(loop.does("a"))
    loop.turn.send(loop.does("b"))
    assert not loop.turn.defer(loop.does("never"))
    assert len(loop.waiting) == 1
    loop.next_pass()
    assert loop.done == ["a", "b"]


def test_a_failure_ends_the_turn_and_loses_nothing() -> None:
    loop = Loop()

    def fail() -> None:
        loop.turn.send(loop.does("send"))
        loop.turn.defer(loop.does("late"))
        raise ValueError

    with pytest.raises(ValueError):
        loop.turn.run(fail)
    loop.next_pass()
    assert loop.done == ["send"]
    loop.turn.run(loop.does("next"))
    assert loop.done == ["send", "next", "late"]


async def test_a_loop_has_one_turn() -> None:
    assert LoopHandle().turn is (turn := LoopHandle().turn)
    assert isinstance(turn, Turn)


async def test_flush_sends_immediately_but_only_once_per_chunk_received() -> None:
    own, peer = socket.socketpair()
    peer.setblocking(False)
    writer = SocketWriter(None, own)  # type: ignore[arg-type]
    try:
        writer.buffer += b"unasked"
        writer.wake()
        writer.flush()
        with pytest.raises(BlockingIOError):
            peer.recv(100)
        await anyio.lowlevel.checkpoint()
        await anyio.wait_readable(peer)
        assert peer.recv(100) == b"unasked"

        writer.may_answer = True
        writer.buffer += b"answer"
        writer.flush()
        assert peer.recv(100) == b"answer"
        writer.buffer += b"more"
        writer.wake()
        writer.flush()
        with pytest.raises(BlockingIOError):
            peer.recv(100)
        await anyio.wait_readable(peer)
        assert peer.recv(100) == b"more"
    finally:
        own.close()
        peer.close()


async def test_flush_sends_a_long_buffer_that_nobody_awaits() -> None:
    own, peer = socket.socketpair()
    peer.setblocking(False)
    writer = SocketWriter(None, own)  # type: ignore[arg-type]
    try:
        writer.buffer += bytes(EARLY_BYTES - 1)
        writer.flush()
        with pytest.raises(BlockingIOError):
            peer.recv(EARLY_BYTES)
        writer.buffer += b"!"
        writer.flush()
        assert peer.recv(EARLY_BYTES) == bytes(EARLY_BYTES - 1) + b"!"
    finally:
        own.close()
        peer.close()


async def test_a_waiter_is_woken_once_even_before_it_waits() -> None:
    waiter = Waiter()
    waiter.wake()
    waiter.wake()
    await waiter.wait()


async def test_a_wait_ends_with_its_time_on_either_clock() -> None:
    await _clock.wait(Waiter(), 0.001)
    async with VirtualClock(autojump=True) as clock:
        start = clock.now()
        await _clock.wait(Waiter(), 3600)
        assert clock.now() == start + 3600


async def test_a_wait_can_be_cancelled_and_leaves_no_timer() -> None:
    waiter = Waiter()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await _clock.wait(waiter, 3600)
    assert scope.cancelled_caught
    waiter.wake()


async def test_only_asyncio_has_its_own_timer() -> None:
    waiter = Waiter()
    call_off = waiter.wake_later(0)
    assert (call_off is None) == (sniffio.current_async_library() == "trio")
    if call_off is not None:
        await waiter.wait()


async def test_waits_for_space_end_when_a_send_takes_everything() -> None:
    own, peer = socket.socketpair()
    writer = SocketWriter(None, own, high_water=10, low_water=5)  # type: ignore[arg-type]
    try:
        async with anyio.create_task_group() as group:
            writer.buffer += bytes(100)
            assert writer.congested
            group.start_soon(writer.drain)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(5):
                writer.wake()
                await until(lambda: not writer.congested)
                await anyio.wait_all_tasks_blocked()
    finally:
        own.close()
        peer.close()
