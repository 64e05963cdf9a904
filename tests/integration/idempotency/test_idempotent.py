"""`@idempotent` on the real broker: keys, duplicates, failures, stores."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide
from pydantic import BaseModel
from sqlalchemy import Connection, create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    JmsApplication,
    PyjmsSettings,
    idempotent,
    jms_listener,
)
from pyjms.aio import Session as JmsSession
from pyjms.listener import IdempotencyStore, MemoryIdempotencyStore
from pyjms.listener import idempotency as calls
from pyjms.listener.decorators import idempotent_mark
from pyjms.listener.idempotency import AsyncIdempotencyStore, Claim
from pyjms.outbox import AsyncSqlIdempotencyStore, SqlIdempotencyStore, metadata
from pyjms.outbox.tables import INBOX
from pyjms.testing.app import JmsTestApp
from pyjms.testing.chaos import Chaos
from pyjms.testing.clock import VirtualClock
from pyjms.transactions import Synchronization
from tests.kit.waiting import until


class Order(BaseModel):
    number: int
    kind: str = "new"


async def send(jms_app: JmsTestApp, *numbers: int, name: str = "orders") -> None:
    def mark(message: Any) -> Any:
        message.properties["order"] = f"o-{message.text}"
        message.type = "order"
        return message

    for number in numbers:
        await jms_app.template.convert_and_send(name, Order(number=number), post_processor=mark)


def duplicates(handler: Any) -> int:
    mark = idempotent_mark(handler)
    assert mark is not None
    return mark.duplicates


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    "key",
    [
        "order",
        "{order}",
        "{jms_type}:{payload.number}",
        "{payload.kind}/{payload.number}",
        lambda order: order.number,
    ],
)
async def test_a_key_is_handled_once(
    kind: str, key: str | Callable[[Any], object], jms_app: JmsTestApp
) -> None:
    seen: list[int] = []

    def note(order: Order) -> None:
        seen.append(order.number)

    async def note_on_the_loop(order: Order) -> None:
        note(order)

    chosen: Any = note if kind == "def" else note_on_the_loop
    handler = jms_listener("orders")(idempotent(key=key)(chosen))
    await jms_app.start(handler)
    await send(jms_app, 1, 2, 1, 1, 3)
    await jms_app.drained("orders", raise_errors=False)
    assert seen == [1, 2, 3]
    assert duplicates(handler) == 2
    assert await jms_app.dead_letters() == []


async def test_the_message_id_is_the_default_key(jms_app: JmsTestApp) -> None:
    seen: list[int] = []

    @idempotent()
    @jms_listener("orders")
    async def handle(order: Order) -> None:
        seen.append(order.number)

    await jms_app.start(handle)
    await send(jms_app, 1, 1)
    await jms_app.drained("orders")
    assert seen == [1, 1]


@pytest.mark.parametrize("store", ["memory", "sql"])
async def test_a_handler_that_raises_is_called_again(
    store: str, jms_app: JmsTestApp, tmp_path: Path
) -> None:
    seen: list[int] = []
    own = SqlIdempotencyStore(sessions_of(tmp_path)) if store == "sql" else None

    @jms_listener("orders")
    @idempotent(key="order", store=own)
    def handle(order: Order) -> None:
        seen.append(order.number)
        if len(seen) == 1:
            raise RuntimeError("once")

    await jms_app.start(handle)
    await send(jms_app, 1, 1)
    await jms_app.drained("orders")
    assert seen == [1, 1]
    assert duplicates(handle) == 1


async def test_a_commit_that_fails_lets_the_handler_be_called_again(jms_app: JmsTestApp) -> None:
    seen: list[int] = []

    class Refusing(Synchronization):
        def before_end(self) -> None:
            if len(seen) == 1:
                raise RuntimeError("no commit")

    @jms_listener("orders")
    @idempotent(key="order")
    async def handle(order: Order, session: JmsSession) -> None:
        seen.append(order.number)
        session.add_synchronization(Refusing())

    await jms_app.start(handle)
    await send(jms_app, 1)
    await jms_app.drained("orders")
    assert seen == [1, 1]


async def test_a_message_without_the_key_is_a_dead_letter(jms_app: JmsTestApp) -> None:
    @jms_listener("orders")
    @idempotent(key="customer")
    async def handle(order: Order) -> None:
        raise AssertionError(order)

    await jms_app.start(handle)
    await send(jms_app, 1)
    await jms_app.drained("orders")
    (dead,) = await jms_app.dead_letters()
    assert "customer is missing" in str(dead.properties["pyjms_failure_text"])


async def test_a_field_of_the_payload_is_no_header(jms_app: JmsTestApp) -> None:
    """A header `id` would be new for each delivery, so that nothing would be a duplicate."""

    @jms_listener("orders", id="orders")
    @idempotent(key="id")
    async def handle(order: dict[str, int]) -> None: ...

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", {"id": 1})
    await jms_app.drained("orders")
    (dead,) = await jms_app.dead_letters()
    assert 'written "{payload.id}"' in str(dead.properties["pyjms_failure_text"])


@pytest.mark.parametrize("end", ["returns", "raises"])
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_what_another_consumer_handles_waits(
    end: str, kind: str, jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    """Longer than redeliveries would take: it does not become a dead letter meanwhile."""
    seen: list[str] = []
    refusals: list[str] = []
    go_on, go_on_the_loop = threading.Event(), anyio.Event()

    class Watched(MemoryIdempotencyStore):
        def claim(self, key: str, arguments: Sequence[object]) -> Claim:
            claim = super().claim(key, arguments)
            if claim is Claim.BUSY:
                refusals.append(key)
            return claim

    def note() -> None:
        seen.append(end)
        if end == "raises" and len(seen) == 1:
            raise RuntimeError("once")

    def handle(order: Order) -> None:
        go_on.wait()
        note()

    async def handle_on_the_loop(order: Order) -> None:
        await go_on_the_loop.wait()
        note()

    chosen: Any = handle if kind == "def" else handle_on_the_loop
    handler = jms_listener("orders", concurrency="2-2", prefetch=1)(
        idempotent(key="order", store=Watched())(chosen)
    )
    await jms_app.start(handler)
    await send(jms_app, 1, 1)

    def refused(count: int) -> Callable[[], bool]:
        return lambda: len(refusals) >= count

    await until(refused(1))
    for count in range(2, 12):
        await jms_clock.advance(1.0)
        await until(refused(count))
    go_on.set()
    go_on_the_loop.set()
    await until(lambda: seen)
    await jms_clock.advance(1.0)
    await jms_app.drained("orders", timeout=30.0, raise_errors=False)
    assert seen == ([end] if end == "returns" else [end] * 2)
    assert duplicates(handler) == 1
    assert await jms_app.dead_letters() == []


@pytest.mark.parametrize("store", ["memory", "sql"])
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_connection_that_is_lost_before_the_commit_frees_the_key(
    kind: str, store: str, jms_app: JmsTestApp, jms_chaos: Chaos, tmp_path: Path
) -> None:
    seen: list[int] = []
    sent, sent_on_the_loop = threading.Event(), anyio.Event()  # both before the connection breaks
    own = SqlIdempotencyStore(sessions_of(tmp_path)) if store == "sql" else None

    def note(order: Order) -> None:
        sent.wait()
        seen.append(order.number)

    async def note_on_the_loop(order: Order) -> None:
        await sent_on_the_loop.wait()
        seen.append(order.number)

    chosen: Any = note if kind == "def" else note_on_the_loop
    handler = jms_listener("orders", concurrency="2-2")(idempotent(key="order", store=own)(chosen))
    await jms_app.start(handler)
    jms_chaos.drop_connection(handler, at="after")
    await send(jms_app, 1, 2)
    sent.set()
    sent_on_the_loop.set()
    await jms_app.drained("orders", timeout=30.0)
    assert sorted(set(seen)) == [1, 2]
    assert len(seen) + duplicates(handler) >= 3  # the first one came again
    assert await jms_app.dead_letters() == []


async def test_a_duplicate_is_one_debug_line(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders", id="orders")
    @idempotent(key="order")
    async def handle(order: Order) -> None: ...

    await jms_app.start(handle)
    with caplog.at_level(logging.DEBUG, "pyjms"):
        await send(jms_app, 1, 1)
        await jms_app.drained("orders")
    lines = [r.getMessage() for r in caplog.records if "has been handled before" in r.getMessage()]
    assert len(lines) == 1
    assert "Listener orders skips message" in lines[0]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def sessions_of(folder: Path) -> sessionmaker[Session]:
    engine = create_engine(f"sqlite:///{folder}/inbox.db")
    metadata.create_all(engine)
    return sessionmaker(engine)


def keys(sessions: sessionmaker[Session]) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(INBOX.c.message_key)))


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_keys_in_a_database_outlive_the_process(
    kind: str, jms_app: JmsTestApp, tmp_path: Path
) -> None:
    sessions = sessions_of(tmp_path)
    seen: list[int] = []
    for _ in range(2):

        def note(order: Order) -> None:
            seen.append(order.number)

        async def note_on_the_loop(order: Order) -> None:
            seen.append(order.number)

        chosen: Any = note if kind == "def" else note_on_the_loop
        store = SqlIdempotencyStore(sessions, listener="billing")
        await jms_app.start(jms_listener("orders")(idempotent(key="order", store=store)(chosen)))
        await send(jms_app, 1, 2)
        await jms_app.drained("orders")
        await jms_app.stop()
    assert seen == [1, 2]
    assert len(keys(sessions)) == 2


async def test_the_key_is_part_of_the_handlers_own_transaction(
    jms_app: JmsTestApp, tmp_path: Path
) -> None:
    sessions = sessions_of(tmp_path)
    seen: list[int] = []

    class Services(ApplicationContainer):
        session = providers.Factory(sessions)

    @jms_listener("orders")
    @idempotent(key="order", store=SqlIdempotencyStore())
    def handle(order: Order, session: Annotated[Session, Provide["session"]]) -> None:
        with session:
            seen.append(order.number)
            assert keys(sessions) == []
            if len(seen) == 1:
                session.rollback()
                raise RuntimeError("once")
            session.commit()

    await jms_app.start(handle, container=Services)
    await send(jms_app, 1)
    await jms_app.drained("orders")
    assert seen == [1, 1]
    assert len(keys(sessions)) == 1


async def test_a_store_without_a_session_says_so(jms_app: JmsTestApp) -> None:
    @jms_listener("orders")
    @idempotent(key="order", store=SqlIdempotencyStore())
    def handle(order: Order) -> None: ...

    await jms_app.start(handle)
    await send(jms_app, 1)
    await jms_app.drained("orders")
    assert "no SQLAlchemy Session" in str(jms_app.recorder.errors()[0])


@asynccontextmanager
async def async_sessions_of(folder: Path) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    sessions_of(folder)
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder}/inbox.db")
    yield async_sessionmaker(engine)
    await engine.dispose()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_coroutines_keep_their_keys_in_a_database_without_threads(
    jms_app: JmsTestApp, tmp_path: Path
) -> None:
    seen: list[int] = []
    async with async_sessions_of(tmp_path) as sessions:
        for _ in range(2):

            @jms_listener("orders")
            @idempotent(key="order", store=AsyncSqlIdempotencyStore(sessions, listener="b"))
            async def handle(order: Order) -> None:
                seen.append(order.number)
                if seen == [1]:
                    raise RuntimeError("once")

            await jms_app.start(handle)
            await send(jms_app, 1, 2, 1)
            await jms_app.drained("orders")
            await jms_app.stop()
        assert seen == [1, 1, 2]
        assert len(keys(sessions_of(tmp_path))) == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["session", "connection"])
async def test_the_key_is_part_of_the_coroutines_own_transaction(
    kind: str, jms_app: JmsTestApp, tmp_path: Path
) -> None:
    seen: list[int] = []
    async with async_sessions_of(tmp_path) as sessions:

        class Services(ApplicationContainer):
            session = providers.Factory(sessions)

        @jms_listener("orders")
        @idempotent(key="order", store=AsyncSqlIdempotencyStore())
        async def handle(
            order: Order, session: Annotated[AsyncSession, Provide["session"]]
        ) -> None:
            async with session:
                seen.append(order.number)
                if len(seen) == 1:
                    raise RuntimeError("rolled back with its key")
                await session.commit()

        if kind == "session":
            await jms_app.start(handle, container=Services)
            await send(jms_app, 1, 1)
            await jms_app.drained("orders")
            assert seen == [1, 1]
        else:
            async with sessions() as session:
                store: AsyncIdempotencyStore = AsyncSqlIdempotencyStore()
                connection = await session.connection()
                assert await store.claim("o-1", [1, connection]) is Claim.NEW
                assert await store.claim("o-1", [connection]) is Claim.DUPLICATE
                await session.commit()
        assert len(keys(sessions_of(tmp_path))) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_key_is_claimed_by_one_coroutine_at_a_time(tmp_path: Path) -> None:
    async with async_sessions_of(tmp_path) as sessions:
        store = AsyncSqlIdempotencyStore(sessions)
        claims: list[Claim] = []

        async def claim() -> None:
            claims.append(await store.claim("a", ()))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(claim)
        assert sorted(each.value for each in claims) == ["busy", "busy", "new"]
        await store.release("a")
        assert await store.claim("a", ()) is Claim.NEW
        await store.complete("a")
        assert await store.claim("a", ()) is Claim.DUPLICATE
        with pytest.raises(ConfigurationException, match="no AsyncSession"):
            await AsyncSqlIdempotencyStore().claim("a", ["payload"])


def test_a_store_with_coroutines_is_for_coroutines() -> None:
    @jms_listener("orders")
    @idempotent(key="order", store=AsyncSqlIdempotencyStore())
    def handle(order: Order) -> None: ...

    with pytest.raises(ConfigurationException, match="the store of its @idempotent has coroutines"):
        JmsApplication(handle, settings=PyjmsSettings()).check()


def test_a_connection_is_a_transaction_too(tmp_path: Path) -> None:
    sessions = sessions_of(tmp_path)
    store: IdempotencyStore = SqlIdempotencyStore()
    with sessions() as session:
        connection: Connection = session.connection()
        assert store.claim("a", ["payload", connection]) is Claim.NEW
        assert store.claim("a", [connection]) is Claim.DUPLICATE
        session.rollback()
    assert keys(sessions) == []


def test_a_store_in_memory_is_bounded_and_forgets() -> None:
    store = MemoryIdempotencyStore(seconds=1000.0, maximum=2)
    for key in ("a", "b", "c"):
        assert store.claim(key, ()) is Claim.NEW
        store.complete(key)
    assert len(store) == 2
    assert store.claim("c", ()) is Claim.DUPLICATE
    assert store.claim("a", ()) is Claim.NEW
    assert store.claim("a", ()) is Claim.BUSY
    store.release("a")
    assert store.claim("a", ()) is Claim.NEW


async def test_a_store_in_memory_forgets_with_time(jms_clock: VirtualClock) -> None:
    store = MemoryIdempotencyStore(seconds=10.0)
    assert store.claim("a", ()) is Claim.NEW
    store.complete("a")
    await jms_clock.advance(9.0)
    assert store.claim("a", ()) is Claim.DUPLICATE
    await jms_clock.advance(2.0)
    assert store.claim("a", ()) is Claim.NEW


@pytest.mark.parametrize("arguments", [{"seconds": 0.0}, {"maximum": 0}, {"seconds": -1.0}])
def test_a_store_in_memory_checks_its_limits(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="seconds"):
        MemoryIdempotencyStore(**arguments)


def test_a_store_may_be_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("small", "pyjms.listener.idempotency:MemoryIdempotencyStore", calls.GROUP)
    found = EntryPoints([point])
    monkeypatch.setattr(calls, "entry_points", found.select)

    @jms_listener("orders")
    @idempotent(key="order", store="small")
    def handle(order: Order) -> None: ...

    JmsApplication(handle, settings=PyjmsSettings()).check()
    mark = idempotent_mark(handle)
    assert mark is not None
    assert isinstance(mark.store, MemoryIdempotencyStore)


@pytest.mark.parametrize(
    ("arguments", "given", "text"),
    [
        ({"store": "nowhere"}, {}, "there is no store 'nowhere'"),
        ({"store": 7}, {}, "is not a store"),
        ({"key": "{payload"}, {}, "cannot be read"),
        ({"key": "{}"}, {}, "a field without a name"),
        ({}, {"batch_size": 3}, "a batch has no key"),
    ],
)
def test_what_cannot_work_is_found_before_the_start(
    arguments: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    @jms_listener("orders", **given)
    @idempotent(**arguments)
    def handle(orders: list[Order]) -> None: ...

    with pytest.raises(ConfigurationException, match=text):
        JmsApplication(handle, settings=PyjmsSettings()).check()
