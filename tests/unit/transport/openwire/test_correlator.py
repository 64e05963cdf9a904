from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import anyio
import pytest

from pyjms.errors import (
    ConnectionFailedException,
    InvalidDestinationException,
    RequestTimeoutException,
)
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import MockTransport, RecordingListener
from pyjms.transport.openwire.correlator import ResponseCorrelator
from pyjms.wire.openwire.commands import (
    Command,
    ExceptionResponse,
    IntegerResponse,
    KeepAliveInfo,
    Response,
    ShutdownInfo,
    Throwable,
)


class Rig:
    def __init__(self) -> None:
        self.mock: MockTransport[Command] = MockTransport(respond=lambda _: ())
        self.correlator = ResponseCorrelator(self.mock)
        self.heard: RecordingListener[Command] = RecordingListener()
        self.correlator.listener = self.heard


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    await rig.correlator.start()
    yield rig
    await rig.correlator.stop()


async def test_one_counter_numbers_all_commands(rig: Rig) -> None:
    rig.correlator.oneway(KeepAliveInfo(99, response_required=True))
    rig.correlator.request_soon(ShutdownInfo(), lambda _: None)
    rig.correlator.oneway(KeepAliveInfo())
    sent = [(c.command_id, c.response_required) for c in rig.mock.sent]
    assert sent == [(1, False), (2, True), (3, False)]


async def test_numbers_start_again_before_they_leave_32_bits(rig: Rig) -> None:
    rig.correlator._last_id = 0x7FFF_FFFE
    rig.correlator.oneway(KeepAliveInfo())
    rig.correlator.oneway(KeepAliveInfo())
    assert [c.command_id for c in rig.mock.sent] == [0x7FFF_FFFF, 1]


async def test_responses_in_any_order_match_their_requests(rig: Rig) -> None:
    rig.mock.respond = lambda c: (
        (IntegerResponse(2, 22), IntegerResponse(1, 11)) if c.command_id == 2 else ()
    )
    results: dict[int, object] = {}

    async def ask(number: int) -> None:
        answer = await rig.correlator.request(ShutdownInfo())
        assert isinstance(answer, IntegerResponse)
        results[number] = answer.result

    async with anyio.create_task_group() as group:
        group.start_soon(ask, 1)
        group.start_soon(ask, 2)
    assert sorted(results.values()) == [11, 22]  # type: ignore[type-var]
    assert rig.heard.commands == []


async def test_commands_that_come_together_are_passed_on_until_reading_is_paused(rig: Rig) -> None:
    outcomes: list[Response | Exception] = []
    rig.correlator.request_soon(ShutdownInfo(), outcomes.append)
    first, response, second, third = KeepAliveInfo(), Response(1), KeepAliveInfo(), KeepAliveInfo()
    commands = deque[Command]((first, response, second, third))

    def pause(command: Command) -> None:
        RecordingListener.on_command(rig.heard, command)
        if command is second:
            rig.correlator.pause_reading()

    rig.heard.on_command = pause  # type: ignore[method-assign]
    rig.correlator.on_commands(commands)
    assert (rig.heard.commands, outcomes, list(commands)) == ([first, second], [response], [third])
    rig.correlator.resume_reading()
    rig.correlator.on_commands(commands)
    assert rig.heard.commands == [first, second, third]


async def test_an_exception_response_is_raised_as_the_class_it_names(rig: Rig) -> None:
    rig.mock.respond = lambda c: (
        ExceptionResponse(c.command_id, Throwable("javax.jms.InvalidDestinationException", "no")),
    )
    with pytest.raises(InvalidDestinationException, match=r"^no$"):
        await rig.correlator.request(ShutdownInfo())
    answers: list[object] = []
    done = anyio.Event()

    def on_response(answer: object) -> None:
        answers.append(answer)
        done.set()

    rig.correlator.request_soon(ShutdownInfo(), on_response)
    await done.wait()
    assert isinstance(answers[0], InvalidDestinationException)


async def test_a_request_times_out_and_its_late_response_is_dropped(rig: Rig) -> None:
    async with VirtualClock() as clock:
        caught: list[Exception] = []

        async def ask() -> None:
            try:
                await rig.correlator.request(ShutdownInfo(), timeout=2.5)
            except RequestTimeoutException as error:
                caught.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            await clock.advance(2.4)
            assert caught == []
            await clock.advance(0.2)
    assert "No response from the broker to ShutdownInfo within 2.5 s" in str(caught[0])
    rig.mock.deliver(Response(1))
    rig.mock.deliver(KeepAliveInfo())
    await rig.heard.next(KeepAliveInfo)
    assert len(rig.heard.commands) == 1


async def test_cancelling_stops_the_wait_only(rig: Rig) -> None:
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(rig.correlator.request, ShutdownInfo())
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert len(rig.mock.sent) == 1
    rig.mock.deliver(Response(1))
    rig.mock.respond = lambda c: (Response(c.command_id),)
    assert (await rig.correlator.request(ShutdownInfo())).correlation_id == 2


async def test_a_failed_transport_fails_all_requests_and_notifies_the_listener_once(
    rig: Rig,
) -> None:
    failures: list[Exception] = []

    async def ask() -> None:
        try:
            await rig.correlator.request(ShutdownInfo())
        except ConnectionFailedException as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        rig.mock.fail(ConnectionFailedException("cut"))
    assert [str(f) for f in failures] == ["cut", "cut"]
    assert failures[0] is not failures[1]
    assert len(rig.heard.errors) == 1
    with pytest.raises(ConnectionFailedException):
        await rig.correlator.request(ShutdownInfo())


async def test_stopping_fails_pending_requests(rig: Rig) -> None:
    answers: list[object] = []
    rig.correlator.request_soon(ShutdownInfo(), answers.append)
    await rig.correlator.stop()
    assert isinstance(answers[0], ConnectionFailedException)
    assert "was stopped" in str(answers[0])
    assert rig.heard.errors == []


async def test_a_command_that_cannot_be_sent_leaves_no_request_behind() -> None:
    rig = Rig()
    with pytest.raises(ConnectionFailedException):
        rig.correlator.request_soon(ShutdownInfo(), lambda _: None)
    assert rig.correlator._pending == {}
