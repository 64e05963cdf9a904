"""Tasks, and how consumers come and go. (spring-jms 1.4, 1.5, 1.6)"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.task_executor import SimpleAsyncTaskExecutor, TaskExecutor, Work
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.values import present


def nothing(message: Message) -> None:
    """Takes a message."""


class Handlers:
    """A listener that takes its time and notes which session brought what."""

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.per_session: Counter[int] = Counter()
        self.scheduled: list[Any] = []
        self.container: Any = None

    async def __call__(self, message: Message, session: Session) -> None:
        self.scheduled.append(present(self.container).scheduled_consumer_count)
        await _clock.sleep(self.seconds)
        self.per_session[id(session)] += 1

    @property
    def handled(self) -> Any:
        return sum(self.per_session.values())


def start_with(build: Callable[..., Any], **options: Any) -> Any:
    handlers = Handlers()
    handlers.container = build(handlers, **options)
    return handlers, handlers.container


@pytest.mark.fact("spring-jms 1.4.1")
async def test_initialisation_makes_paused_tasks_and_start_runs_them(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(nothing, concurrency="3-7")
    await container.initialize()
    assert (container.scheduled_consumer_count, container.paused_task_count) == (3, 3)
    assert container.active_consumer_count == 0
    await container.start()
    assert (container.scheduled_consumer_count, container.paused_task_count) == (3, 0)
    assert container.active_consumer_count == 3


@pytest.mark.fact("spring-jms 1.4.2")
@pytest.mark.parametrize(
    ("options", "messages", "idle"),
    [
        ({"task_executor": TaskExecutor(8)}, 10, None),
        ({"task_executor": TaskExecutor(8), "max_messages_per_task": 3}, 3, 10),
        ({}, None, 10),
        ({"max_messages_per_task": 3}, 3, 10),
        ({"idle_receives_per_task_limit": 4}, None, 4),
    ],
)
async def test_limits_that_are_unset(
    options: Any, messages: int | None, idle: int | None, build: Callable[..., Any]
) -> None:
    container = build(nothing, **options)
    await container.initialize()
    assert container.max_messages_per_task == messages
    assert container.idle_receives_per_task_limit == idle


class CountingExecutor(SimpleAsyncTaskExecutor):
    """Counts the tasks it is given."""

    def __init__(self) -> None:
        self.tasks = 0

    def execute(
        self, function: Callable[[], Awaitable[None]], name: str, ended: Work | None = None
    ) -> BackgroundTask:
        self.tasks += 1
        return super().execute(function, name, ended)


@pytest.mark.fact("spring-jms 1.4.3", "spring-jms 1.4.4")
@pytest.mark.parametrize(
    ("options", "seconds", "tasks"),
    [
        ({}, 25.5, 1),  # a core consumer loops for ever
        ({"max_messages_per_task": -1}, 25.5, 1),
        ({"max_messages_per_task": 5}, 25.5, 6),  # empty receives count too
        ({"max_messages_per_task": 20, "idle_receives_per_task_limit": 3}, 25.5, 9),
    ],
)
async def test_a_task_ends_when_its_limits_say_so(
    options: Any, seconds: float, tasks: int, build: Callable[..., Any], clock: VirtualClock
) -> None:
    executor = CountingExecutor()
    container = build(nothing, task_executor=executor, **options)
    await container.start()
    await clock.advance(seconds)
    assert executor.tasks == tasks
    assert container.scheduled_consumer_count == 1


@pytest.mark.fact("spring-jms 1.4.3")
async def test_a_message_resets_the_count_of_empty_receives(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    executor = CountingExecutor()
    container = build(
        Handlers(0), task_executor=executor, max_messages_per_task=100,
        idle_receives_per_task_limit=3,
    )  # fmt: skip
    container.message_listener.container = container
    await container.start()
    await clock.advance(2.5)
    provider.send("q", "a")
    await clock.advance(2.9)
    assert executor.tasks == 1
    await clock.advance(0.2)
    assert executor.tasks == 2


@pytest.mark.fact("spring-jms 1.4.4", "spring-jms 1.6.1", "spring-jms 1.6.4")
async def test_a_surplus_consumer_ends_after_ten_empty_receives(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    handlers, container = start_with(build, concurrency="1-3")
    provider.send("q", *map(str, range(20)))
    await container.start()
    await clock.advance(1)
    assert handlers.handled == 20
    assert container.scheduled_consumer_count == 3
    await clock.advance(8.5)
    assert container.scheduled_consumer_count == 3
    await clock.advance(1.5)
    assert container.scheduled_consumer_count == 1
    await clock.advance(60)
    assert container.scheduled_consumer_count == 1
    assert container.active_consumer_count == 1


@pytest.mark.fact("spring-jms 1.4.5", "spring-jms 1.4.6")
async def test_idle_tasks_in_a_row_end_a_surplus_consumer(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    handlers, container = start_with(
        build, concurrency="1-2", max_messages_per_task=5, receive_timeout=0.1,
        idle_task_execution_limit=3,
    )  # fmt: skip
    provider.send("q", *map(str, range(30)))
    await container.start()
    await clock.advance(0.5)
    assert handlers.handled == 30
    await clock.advance(1.0)  # two idle tasks at most
    assert container.scheduled_consumer_count == 2
    provider.send("q", "a", "b")  # one each: the counts are reset
    await clock.advance(1.3)
    assert container.scheduled_consumer_count == 2
    await clock.advance(0.8)
    assert container.scheduled_consumer_count == 1
    sessions = provider.count("Connection.createSession", "Session.close")
    assert sessions == {"Connection.createSession": 2, "Session.close": 1}


@pytest.mark.fact("spring-jms 1.4.7")
async def test_where_a_task_goes_after_its_end(
    build: Callable[..., Any], clock: VirtualClock
) -> None:
    executor = CountingExecutor()
    container = build(nothing, task_executor=executor, max_messages_per_task=1)
    await container.start()
    await clock.advance(1.05)
    assert executor.tasks == 2  # running: to the executor
    await container.stop()
    await clock.settle()
    assert container.paused_task_count == 1  # stopped: paused
    await container.start()
    await container.shutdown()
    assert (container.scheduled_consumer_count, container.paused_task_count) == (0, 0)


@pytest.mark.fact("spring-jms 1.5.1", "spring-jms 1.5.3")
async def test_growth_is_one_step_a_message_before_the_listener(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    handlers, container = start_with(build, concurrency="1-5")
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    assert handlers.scheduled == [2]  # the listener has been called, the next consumer is there
    await clock.advance(5)
    assert container.scheduled_consumer_count == 2  # silence adds none
    provider.send("q", "b")
    await clock.settle()
    assert container.scheduled_consumer_count in {2, 3}
    provider.send("q", *"cdefghijklm")
    await clock.advance(0.2)
    assert handlers.scheduled == sorted(handlers.scheduled)
    assert max(handlers.scheduled) == container.scheduled_consumer_count == 5
    steps = sorted(set(handlers.scheduled))
    assert all(b - a == 1 for a, b in itertools.pairwise(steps))


@pytest.mark.fact("spring-jms 1.5.2")
async def test_a_consumer_is_busy_until_an_empty_receive(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    handlers, container = start_with(build, concurrency="1-2", idle_consumer_limit=2)
    await container.start()
    pool = container.consumer_pool
    assert pool.idle_count() == 1  # idle from its creation
    provider.send("q", "a")
    await clock.settle()
    assert container.scheduled_consumer_count == 2
    await clock.advance(0.1)
    assert handlers.handled == 1
    assert pool.idle_count() == 1  # the listener has returned, and still it counts as busy
    await clock.advance(1.1)
    assert pool.idle_count() == 2


@pytest.mark.fact("spring-jms 1.5.3", "spring-jms 1.5.4")
async def test_a_broker_that_prefetches_everything_stops_growth_at_two(
    provider: JmsProvider, oracle: dict[str, Any], build: Callable[..., Any], clock: VirtualClock
) -> None:
    expected = oracle["scale-up"][0]
    provider.prefetch_all = True
    handlers, container = start_with(build, concurrency="1-5")
    provider.send("q", *map(str, range(200)))
    await container.start()
    await clock.advance(5)
    assert handlers.handled == expected["handled"]
    assert max(handlers.scheduled) == expected["maxScheduled"]
    assert sorted(handlers.per_session.values()) == expected["messagesPerThread"]


@pytest.mark.parametrize("variant", [1, 2, 3, 4])
async def test_small_windows_reach_the_maximum(
    variant: int,
    provider: JmsProvider,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["scale-up"][variant]
    limit = 3 if "idleConsumerLimit=3" in expected["variant"] else 1
    handlers, container = start_with(build, concurrency="1-5", idle_consumer_limit=limit)
    if "while" not in expected["variant"] and "queued" in expected["variant"]:
        provider.send("q", *map(str, range(200)))
        await container.start()
    else:
        await container.start()
        for number in range(200):
            provider.send("q", str(number))
            await clock.advance(0.002)
    await clock.advance(1.5)
    assert handlers.handled == expected["handled"]
    assert container.scheduled_consumer_count == expected["maxScheduled"]
    assert len(handlers.per_session) == expected["threadsThatHandledAMessage"]
    assert all(35 <= count <= 45 for count in handlers.per_session.values())


@pytest.mark.fact("spring-jms 1.5.5")
async def test_the_idle_limit_is_how_many_idle_ones_may_exist(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    provider.prefetch_all = True
    _handlers, container = start_with(build, concurrency="1-9", idle_consumer_limit=3)
    provider.send("q", *map(str, range(20)))
    await container.start()
    await clock.settle()
    assert container.scheduled_consumer_count == 2  # one a message
    await clock.advance(0.39)
    assert container.scheduled_consumer_count == 1 + 3


@pytest.mark.fact("spring-jms 1.6.3")
@pytest.mark.parametrize("limit", [1, 3])
async def test_short_tasks_scale_down_after_so_many_idle_ones(
    limit: int,
    provider: JmsProvider,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["scale-down"][1 if limit == 1 else 2]
    assert f"idleTaskExecutionLimit={limit}" in expected["variant"]
    handlers, container = start_with(
        build, concurrency="1-5", max_messages_per_task=5, receive_timeout=0.1,
        idle_task_execution_limit=limit,
    )  # fmt: skip
    provider.send("q", *map(str, range(200)))
    await container.start()
    await clock.advance(1.0)
    assert handlers.handled == 200
    assert container.max_messages_per_task == expected["effectiveMaxMessagesPerTask"]
    assert container.scheduled_consumer_count == expected["scheduledWhenLastMessageDone"]
    seen = []
    for _ in range(40 * limit):
        await clock.advance(0.05)
        seen.append(container.scheduled_consumer_count)
    assert seen == sorted(seen, reverse=True)
    assert seen[: int(10 * (limit - 1))] == [5] * int(10 * (limit - 1))
    assert seen[20 * limit] == expected["scheduledAfterIdle"]
    assert seen[-1] == expected["scheduledAfterIdle"]


@pytest.mark.fact("spring-jms 1.6.2")
async def test_without_limits_of_tasks_the_number_never_falls(
    provider: JmsProvider, oracle: dict[str, Any], build: Callable[..., Any], clock: VirtualClock
) -> None:
    """What Spring 4.3 does by default; since 6.2 a limit of idle receives is set, as here."""
    expected = oracle["scale-down"][0]
    handlers, container = start_with(
        build, concurrency="1-5", receive_timeout=0.1, idle_receives_per_task_limit=-1
    )
    provider.send("q", *map(str, range(200)))
    await container.start()
    await clock.advance(1.0)
    assert handlers.handled == 200
    assert container.scheduled_consumer_count == expected["scheduledWhenLastMessageDone"]
    await clock.advance(expected["idleWatchMs"] / 1000)
    assert container.scheduled_consumer_count == expected["scheduledAfterIdle"] == 5


async def test_an_executor_for_short_tasks_scales_down_too(
    provider: JmsProvider, oracle: dict[str, Any], build: Callable[..., Any], clock: VirtualClock
) -> None:
    expected = oracle["scale-down"][3]
    handlers, container = start_with(
        build, concurrency="1-5", receive_timeout=0.1, task_executor=TaskExecutor(10)
    )
    provider.send("q", *map(str, range(200)))
    await container.start()
    await clock.advance(1.0)
    assert handlers.handled == 200
    assert container.max_messages_per_task == expected["effectiveMaxMessagesPerTask"]
    assert container.scheduled_consumer_count == expected["scheduledWhenLastMessageDone"]
    await clock.advance(2.5)
    assert container.scheduled_consumer_count == expected["scheduledAfterIdle"]
    assert container.task_executor.active_count == 1


@pytest.mark.fact("spring-jms 1.6.5")
async def test_numbers_changed_at_run_time(
    provider: JmsProvider, oracle: dict[str, Any], build: Callable[..., Any], clock: VirtualClock
) -> None:
    steps = iter(oracle["runtime-concurrency"])

    def check() -> None:
        step = next(steps)
        assert {
            "concurrentConsumers": container.concurrent_consumers,
            "maxConcurrentConsumers": container.max_concurrent_consumers,
            "scheduled": container.scheduled_consumer_count,
            "active": container.active_consumer_count,
            "paused": container.paused_task_count,
            "isRunning": container.is_running,
            "isActive": container.is_active,
        } == {key: value for key, value in step.items() if key != "step"}, step["step"]

    _, container = start_with(build, concurrent_consumers=2, receive_timeout=0.2)
    await container.start()
    check()
    container.concurrent_consumers = 4
    await clock.advance(0.5)
    check()
    provider.send("q", *map(str, range(40)))
    await clock.advance(0.5)
    check()
    container.max_concurrent_consumers = 1
    check()
    container.concurrent_consumers = 1
    container.max_concurrent_consumers = 1
    await clock.advance(1.2)
    check()
    await container.stop()
    await clock.settle()
    check()
    await container.start()
    await clock.settle()
    check()
