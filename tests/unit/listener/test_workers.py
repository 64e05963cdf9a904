"""Worker threads and task executors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.message_listener import ListenerCall, listener_name
from pyjms.listener.task_executor import SimpleAsyncTaskExecutor, TaskExecutor
from pyjms.runtime.event_loop import LoopHandle
from pyjms.template.synchronization import call_in_thread
from pyjms.template.workers import Worker, call_in_worker, current_worker
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder

variable = ContextVar("variable", default="unset")


async def test_calls_run_in_one_thread_of_that_name() -> None:
    worker = Worker("mine")
    first = await worker.run(threading.current_thread)
    assert first is await worker.run(threading.current_thread)
    assert first.name == "mine"
    assert first.daemon
    worker.close()
    assert await worker.join(5)
    first.join(5)
    assert not first.is_alive()


async def test_results_errors_and_context_variables_cross() -> None:
    worker = Worker("mine")
    variable.set("seen")
    assert await worker.run(lambda a, b: (a + b, variable.get()), 1, 2) == (3, "seen")
    for error in (ValueError("no"), SystemExit(3)):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as caught:
            await worker.run(fail)
        assert caught.value is error
    worker.close()
    assert await worker.join(5)


async def test_a_worker_that_was_never_used_has_no_thread() -> None:
    before = threading.active_count()
    worker = Worker("mine")
    worker.close()
    assert await worker.join(5)
    assert threading.active_count() == before


async def test_a_cancelled_call_is_abandoned() -> None:
    worker = Worker("mine")
    go, entered, loop = threading.Event(), anyio.Event(), LoopHandle()

    def block() -> None:
        loop.call_soon(entered.set)
        go.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run, block)
        await entered.wait()
        tasks.cancel_scope.cancel()
    assert worker.busy
    worker.close()
    assert not await worker.join(0)
    go.set()
    assert await worker.join(5)


async def test_call_in_worker_needs_a_listener() -> None:
    with pytest.raises(IllegalStateException, match="Not inside a listener"):
        await call_in_worker(len, "abc")
    worker = Worker("mine")
    token = current_worker.set(worker)
    assert await call_in_worker(len, "abc") == 3
    current_worker.reset(token)
    worker.close()


async def test_call_in_worker_inside_a_container(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any]
) -> None:
    names = []

    async def listener(message: Message) -> None:
        names.append(await call_in_worker(lambda: threading.current_thread().name))
        recorder.note(message)

    provider.send("q", "a")
    await build(listener, bean_name="orders").start()
    await recorder.until(lambda: bool(recorder.deliveries))
    assert names == ["orders-1"]


async def test_tasks_do_not_inherit_context_variables() -> None:
    variable.set("of the caller")
    seen = []

    async def work() -> None:
        seen.append(variable.get())

    async def after() -> None:
        seen.append("ended")

    await SimpleAsyncTaskExecutor().execute(work, "task", after).wait()
    assert seen == ["unset", "ended"]


async def test_a_bounded_executor_refuses_and_frees_places() -> None:
    executor = TaskExecutor(1)
    go = anyio.Event()
    again = []

    async def ended() -> None:
        again.append(executor.execute(checkpoint, "next"))

    first = executor.execute(go.wait, "first", ended)
    with pytest.raises(ResourceAllocationException, match="all 1 workers"):
        executor.execute(go.wait, "second")
    go.set()
    await first.wait()
    await again[0].wait()
    assert executor.active_count == 0
    with pytest.raises(ValueError, match="max_workers"):
        TaskExecutor(0)


def test_what_a_listener_is_called_with() -> None:
    def plain(message: Message) -> None:
        """One."""

    def with_session(message: Message, session: Session) -> None:
        """Two."""

    def optional_session(message: Message, session: Session | None = None) -> None:
        """Both kinds."""

    def optional_other(message: Message, retries: int = 3) -> None:
        """One, and something of its own."""

    async def coroutine(message: Message) -> None:
        """One."""

    class Callable:
        async def __call__(self, message: Message, session: Session) -> None:
            """Two."""

    listeners: tuple[Any, ...] = (
        plain, with_session, optional_session, optional_other, coroutine, Callable(), print
    )  # fmt: skip
    found = [(call.is_async, call.wants_session) for call in map(ListenerCall, listeners)]
    assert found == [(False, False), (False, True), (False, True), (False, False), (True, False),
                     (True, True), (False, False)]  # fmt: skip


def test_names_of_listeners() -> None:
    class Named:
        subscription_name = "shop.Orders.on_order"

        def on_message(self, message: Message) -> None:
            """Takes it."""

    assert listener_name(Named()) == "shop.Orders.on_order"
    assert listener_name(len) == "builtins.len"


async def test_a_thread_may_call_what_belongs_to_the_loop() -> None:
    worker = Worker("mine")
    here = threading.get_ident()

    def touch(argument: Any) -> Any:
        assert threading.get_ident() == here
        if argument is None:
            raise IllegalStateException("closed")
        return argument + 1

    on_loop = worker.on_loop(touch)
    assert on_loop(1) == 2
    assert await worker.run(on_loop, 1) == 2
    with pytest.raises(IllegalStateException, match="closed"):
        await worker.run(on_loop, None)
    worker.close()
    assert await worker.join(5)


@pytest.mark.parametrize("state", ["free", "closed", "busy"])
async def test_what_a_thread_has_registered_is_called_in_it_while_it_is_free(state: str) -> None:
    """A task that outlives its handler, or one beside it, does not wait for that thread."""
    worker = Worker("mine")
    token = current_worker.set(worker)
    entered, released = anyio.Event(), threading.Event()
    try:
        mine = await worker.run(threading.current_thread)
        if state == "closed":
            worker.close()
        async with anyio.create_task_group() as tasks:
            if state == "busy":
                handle = LoopHandle()

                def hold() -> None:
                    handle.call_soon(entered.set)
                    released.wait(20)

                tasks.start_soon(worker.run, hold)
                await entered.wait()
            with anyio.fail_after(20):
                thread = await call_in_thread(threading.current_thread)
            released.set()
        assert (thread is mine) is (state == "free")
        assert thread is not threading.current_thread()
    finally:
        released.set()
        current_worker.reset(token)
        worker.close()
