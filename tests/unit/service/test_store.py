"""The broker and its store: opened first, waited for, watched, named, closed last."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pyjms.errors import IllegalStateException, JMSException
from pyjms.testing.clock import VirtualClock
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.service import BrokerService, IOExceptionHandler
from pyjms_broker.service.configuration import KahaDBPersistenceFactory
from pyjms_broker.store.api import PersistenceAdapter, StoreState
from pyjms_broker.store.memory import MemoryPersistenceAdapter


class Store(MemoryPersistenceAdapter):
    """Writes down what happens to it; may wait for a lock, fail to open, or have trouble."""

    def __init__(self, *, locked: bool = False, error: Exception | None = None) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.on_lock_lost: Callable[[], None] | None = None
        self.on_progress: Callable[[int, object], None] | None = None
        self.unlocked = anyio.Event()
        self.waiting = anyio.Event()
        if not locked:
            self.unlocked.set()
        self._error = error
        self.end_error: Exception | None = None
        self._state = StoreState.RUNNING

    async def start(self) -> None:
        self.calls.append("start")
        self.waiting.set()
        await self.unlocked.wait()
        if self._error is not None:
            raise self._error
        self.calls.append("open")

    @property
    def is_slave(self) -> bool:
        return self.calls[-1:] == ["start"] and not self.unlocked.is_set()

    async def stop(self) -> None:
        self.calls.append("stop")
        await super().stop()
        if self.end_error is not None:
            raise self.end_error

    async def delete_all_messages(self) -> None:
        self.calls.append("delete")

    @property
    def state(self) -> StoreState:
        return self._state

    def becomes(self, state: StoreState, error: Exception | None = None) -> None:
        self._state = state
        assert self.on_state is not None
        self.on_state(state, error)


class Door(TransportConnector):
    """A connector that says what it does, and may not end."""

    def __init__(self, service: BrokerService, name: str, *, stuck: bool = False) -> None:
        super().__init__(service, TransportURI(name), name)
        self.calls: list[str] = []
        self.changed = anyio.Event()
        self.errors: list[Exception] = []
        """What the next calls of `start` raise."""
        self._stuck = stuck

    @property
    def connect_uri(self) -> str:
        return f"{self.name}://here"

    async def start(self) -> None:
        if self.errors:
            raise self.errors.pop()
        self._note("open")

    async def stop(self) -> None:
        self._note("close")
        if self._stuck:
            await anyio.sleep_forever()

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.changed.set()
        self.changed = anyio.Event()

    async def does(self, call: str) -> None:
        while self.calls[-1] != call:
            await self.changed.wait()


def with_door(
    store: Store, handler: IOExceptionHandler | None = None
) -> tuple[BrokerService, Door]:
    service = BrokerService("stored", persistence_adapter=store, io_exception_handler=handler)
    door = Door(service, "door")
    service.connectors.append(door)
    return service, door


async def test_the_store_is_open_before_the_connectors_and_closed_after_them() -> None:
    store = Store()
    service, door = with_door(store)
    with pytest.raises(IllegalStateException, match="has not been started"):
        _ = service.stores.store
    async with service:
        assert store.calls == ["start", "open"]
        assert service.stores.store is store
        assert door.calls == ["open"]
        assert not service.store_failed
    assert store.calls == ["start", "open", "stop"]
    assert door.calls == ["open", "close"]


@pytest.mark.fact("activemq-broker B8")
async def test_a_slave_opens_nothing_until_the_lock_is_free() -> None:
    store = Store(locked=True)
    service, door = with_door(store)
    assert not service.slave
    async with anyio.create_task_group() as group:
        group.start_soon(service.start)
        await store.waiting.wait()
        assert service.slave
        assert not service.started  # type: ignore[unreachable]
        assert door.calls == []
        assert vm_registry.find("stored") is None
        await service.start()  # ignored: it is under way
        store.unlocked.set()
    assert service.started
    assert not service.slave
    assert door.calls == ["open"]
    await service.stop()


@pytest.mark.fact("activemq-persistence H4")
async def test_stop_ends_a_slaves_wait() -> None:
    store = Store(locked=True)
    service, door = with_door(store)
    refused: list[IllegalStateException] = []

    async def start() -> None:
        with pytest.raises(IllegalStateException, match="stopped while it was starting") as raised:
            await service.start()
        refused.append(raised.value)

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await store.waiting.wait()
        assert service.slave
        await service.stop()
        assert not service.slave
    assert len(refused) == 1
    assert store.calls == ["start", "stop"]
    assert "open" not in door.calls
    store.unlocked.set()
    async with service:
        assert service.started


async def test_a_store_that_does_not_open_stops_the_start() -> None:
    store = Store(error=JMSException("Detected missing/corrupt journal files"))
    service, _ = with_door(store)
    with pytest.raises(JMSException, match="missing/corrupt"):
        await service.start()
    assert not service.started
    assert store.calls == ["start", "stop"]


async def test_all_messages_may_be_deleted_first(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    service = BrokerService("empty", persistence_adapter=store, delete_all_messages_on_startup=True)
    async with service:
        assert store.calls == ["delete", "start", "open"]
    assert "Broker empty starts with an empty store" in caplog.messages


async def test_a_store_that_fails_stops_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    service, door = with_door(store)
    await service.start()
    store.becomes(StoreState.FAILED, OSError("the disk is gone"))
    assert service.store_failed
    store.becomes(StoreState.FAILED, OSError("again"))
    await service.wait_until_stopped()
    assert door.calls == ["open", "close"]
    assert store.calls == ["start", "open", "stop"]
    assert "Broker stored stops because its store failed: the disk is gone" in caplog.text


async def test_the_process_may_end_with_a_failed_store() -> None:
    store = Store()
    service, _ = with_door(store, IOExceptionHandler(system_exit_on_shutdown=True))
    await service.start()
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        store.becomes(StoreState.FAILED, OSError("the disk is gone"))
        async for received in signals:
            assert received is signal.SIGTERM
            break
    assert not service.started


async def test_the_process_ends_also_when_the_failed_store_cannot_be_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()
    store.end_error = JMSException("the end is not written")
    service, _ = with_door(store, IOExceptionHandler(system_exit_on_shutdown=True))
    await service.start()
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        store.becomes(StoreState.FAILED, OSError("the disk is gone"))
        async for received in signals:
            assert received is signal.SIGTERM
            break
    assert not service.started
    assert "the end is not written" in caplog.text


@pytest.mark.fact("activemq-persistence H2")
@pytest.mark.parametrize("backlog", [0, 3])
async def test_a_lost_lock_stops_the_broker(caplog: pytest.LogCaptureFixture, backlog: int) -> None:
    store = Store()
    service, _ = with_door(store)
    await service.start()
    assert store.on_lock_lost is not None
    for _ in range(backlog + 1):
        store.on_lock_lost()
    await service.wait_until_stopped()
    assert store.calls == ["start", "open", "stop"]
    assert "Broker stored stops: another broker has taken over its store" in caplog.messages


async def test_a_long_replay_is_followed_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "pyjms_broker")
    store = Store(locked=True)
    service, _ = with_door(store)
    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(service.start)
        await store.waiting.wait()
        assert store.on_progress is not None
        store.on_progress(2000, "db-1.log:7")
        await clock.advance(5)
        store.on_progress(4000, "db-2.log:8")
        store.on_progress(6000, "db-2.log:9")
        store.unlocked.set()
    await service.stop()
    said = [text for text in caplog.messages if "replays its journal" in text]
    assert said == ["Broker stored replays its journal: 4000 records, at db-2.log:8"]


async def test_the_broker_may_continue_without_its_store(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    service, _ = with_door(store, IOExceptionHandler(ignore_all_errors=True))
    async with service:
        store.becomes(StoreState.FAILED, OSError("the disk is gone"))
        await anyio.lowlevel.checkpoint()
        assert service.started
    assert "the store failed, the broker keeps running without it: the disk is gone" in caplog.text


async def test_a_full_disk_and_its_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyjms_broker")
    store = Store()
    service, door = with_door(store)
    async with service:
        store.becomes(StoreState.CONGESTED)
        store.becomes(StoreState.SUSPENDED, OSError(28, "No space left on device"))
        store.becomes(StoreState.RUNNING)
        assert door.calls == ["open"]
    assert "the store is suspended" in caplog.text
    assert "No space left on device" in caplog.text
    assert "Broker stored: the store works again" in caplog.messages


async def test_clients_may_be_sent_away_while_the_disk_is_full() -> None:
    store = Store()
    service, door = with_door(store, IOExceptionHandler(stop_start_connectors=True))
    async with service:
        full = OSError(28, "No space left on device")
        store.becomes(StoreState.SUSPENDED, full)
        await door.does("close")
        store.becomes(StoreState.RUNNING)
        await door.does("open")
        store.becomes(StoreState.SUSPENDED, full)
        store.becomes(StoreState.RUNNING)
        store.becomes(StoreState.SUSPENDED, full)
        await door.does("close")
    assert door.calls[:4] == ["open", "close", "open", "close"]


async def test_connectors_that_cannot_be_opened_again_are_tried_until_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()
    service, door = with_door(store, IOExceptionHandler(stop_start_connectors=True))
    async with VirtualClock() as clock, service:
        store.becomes(StoreState.SUSPENDED, OSError(28, "No space left on device"))
        await door.does("close")
        door.errors = [JMSException("the port is taken") for _ in range(2)]
        store.becomes(StoreState.RUNNING)
        await clock.settle()
        assert len(door.errors) == 1
        await clock.advance(1.1)
        assert door.errors == []
        assert door.calls == ["open", "close"]
        await clock.advance(1.1)
        assert door.calls == ["open", "close", "open"]
        assert caplog.text.count("connectors could not be opened, retrying: the port is taken") == 2


async def test_stuck_connections_of_all_connectors_share_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = BrokerService("stuck", persistent=False)
    doors = [Door(service, name, stuck=True) for name in ("a", "b", "c")]
    service.connectors.extend(doors)
    await service.start()
    await service.stop(timeout=0.01)
    assert [door.calls for door in doors] == [["open", "close"]] * 3
    assert caplog.text.count("connections did not close within 0.01 s") == 1


def test_the_directory_of_a_store() -> None:
    assert BrokerService("b").stores.directory == Path("activemq-data/b/KahaDB")
    there = BrokerService("b", data_directory="data")
    assert there.stores.directory == Path("data/b/KahaDB")
    assert BrokerService("b", store_directory="x").stores.directory == Path("x")
    assert BrokerService("b", persistent=False).stores.directory is None
    assert BrokerService("b", persistence_adapter=Store()).stores.directory is None


async def test_a_factory_makes_a_new_store_at_each_start(tmp_path: Path) -> None:
    made: list[tuple[Path, str, Store]] = []

    class Factory:
        directory_name: str | None = "shelf"

        def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
            made.append((directory, broker_name, Store()))
            return made[-1][2]

    service = BrokerService("b", data_directory=tmp_path, persistence=Factory())
    for _ in range(2):
        async with service:
            assert service.stores.store is made[-1][2]
    assert [(directory, name) for directory, name, _ in made] == [
        (tmp_path / "b" / "shelf", "b")
    ] * 2
    assert made[0][2].calls == ["start", "open", "stop"]


def test_the_default_factory_is_like_any_other() -> None:
    wanted = inspect.signature(KahaDBPersistenceFactory.create).parameters
    assert list(wanted) == ["self", "directory", "broker_name"]
    assert KahaDBPersistenceFactory().directory_name == "KahaDB"


async def test_the_log_names_the_store(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyjms_broker")
    async with BrokerService("plain", persistent=False):
        assert "Broker plain keeps its messages in memory" in caplog.messages
    async with BrokerService("own", persistence_adapter=Store()):
        assert "Broker own keeps its messages in Store: 0 in 0 destinations" in caplog.messages
