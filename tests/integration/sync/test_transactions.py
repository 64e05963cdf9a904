"""Transactions of other resources, synchronizations and chains of the blocking API."""

from __future__ import annotations

import itertools
import signal
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from pyjms import (
    CachingConnectionFactory,
    ChainedTransactionManager,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    IllegalStateException,
    JmsTemplate,
    JmsTransactionManager,
    Message,
    ResourceTransactionManager,
    TransactionRolledBackException,
    jms_listener,
)
from pyjms.errors import HeuristicCompletionException, SynchedLocalTransactionFailedException
from pyjms.testing.app import JmsTestApp
from pyjms.transactions import (
    TransactionSynchronization,
    is_synchronization_active,
    register_synchronization,
)
from tests.kit.values import present

_numbers = itertools.count(1)


@pytest.fixture
def factory() -> Iterator[CachingConnectionFactory]:
    url = f"vm://blocking-tx-{next(_numbers)}?broker.persistent=false"
    factory = CachingConnectionFactory(ConnectionFactory(url))
    yield factory
    factory.destroy()


class Database:
    """A database whose connection one thread may use: that which has opened it."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self.rows = sqlite3.connect(path, isolation_level=None)
        self.rows.execute("CREATE TABLE orders (text TEXT)")
        self.fails = False
        self.manager = ResourceTransactionManager(self.begin, self.commit, self.rollback)

    def begin(self) -> sqlite3.Connection:
        self.rows.execute("BEGIN")
        return self.rows

    def commit(self, rows: sqlite3.Connection) -> None:
        if self.fails:
            raise OSError("disk full")
        rows.commit()

    def rollback(self, rows: sqlite3.Connection) -> None:
        rows.rollback()

    def add(self, text: str) -> None:
        self.rows.execute("INSERT INTO orders VALUES (?)", (text,))

    def texts(self) -> list[str]:
        return [text for (text,) in self.rows.execute("SELECT text FROM orders")]


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.rows.close()


class Recording(TransactionSynchronization):
    """Notes its calls and their threads, and does something in one of them."""

    def __init__(self, at: str = "", action: Any = None) -> None:
        self.log: list[str] = []
        self.threads: set[threading.Thread] = set()
        self._at, self._action = at, action

    def _note(self, name: str) -> None:
        self.log.append(name)
        self.threads.add(threading.current_thread())
        if name == self._at:
            self._action()

    def before_commit(self) -> None:
        self._note("before_commit")

    def before_completion(self) -> None:
        self._note("before_completion")

    def after_commit(self) -> None:
        self._note("after_commit")

    def after_completion(self, committed: bool) -> None:
        self._note(f"after_completion {committed}")


def texts(factory: CachingConnectionFactory, name: str = "q") -> list[str]:
    template = JmsTemplate(factory, receive_timeout=0.1)
    return list(iter(lambda: template.receive_and_convert(name), None))


COMMITTED = ["before_commit", "before_completion", "after_commit", "after_completion True"]
ROLLED_BACK = ["before_completion", "after_completion False"]


@pytest.mark.fact("spring-jms 7.7")
@pytest.mark.parametrize("end", ["commit", "rollback", "raise"])
def test_resource_and_callbacks_are_called_in_the_thread_of_the_block(
    database: Database, end: str
) -> None:
    recording = Recording()
    try:
        with database.manager.transaction("name") as status:
            assert (status.name, status.resource) == ("name", database.rows)
            assert is_synchronization_active()
            register_synchronization(recording)
            database.add("a")
            if end == "rollback":
                status.set_rollback_only()
            if end == "raise":
                raise KeyError
    except KeyError:
        assert end == "raise"
    assert recording.log == (COMMITTED if end == "commit" else ROLLED_BACK)
    assert recording.threads == {threading.current_thread()}
    assert database.texts() == (["a"] if end == "commit" else [])
    assert not is_synchronization_active()
    with pytest.raises(IllegalStateException, match="synchronization is not active"):
        register_synchronization(recording)


def test_a_callback_that_fails_before_the_commit_rolls_back(database: Database) -> None:
    def fail() -> None:
        raise ValueError("no")

    recording = Recording("before_commit", fail)
    with pytest.raises(ValueError, match="no"), database.manager.transaction():
        register_synchronization(recording)
        database.add("a")
    assert recording.log == ["before_commit", *ROLLED_BACK]
    assert database.texts() == []


def test_a_commit_or_begin_that_fails_is_raised(database: Database) -> None:
    database.fails = True
    with pytest.raises(OSError, match="disk full"), database.manager.transaction():
        database.add("a")
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):  # of the first one
        database.manager.transaction().__enter__()


def test_a_block_within_joins(database: Database) -> None:
    other = Database()
    with (
        pytest.raises(TransactionRolledBackException, match="inner block failed"),
        database.manager.transaction() as outer,
        other.manager.transaction(),
    ):
        with database.manager.transaction() as inner:
            assert inner is outer
            database.add("a")
        with pytest.raises(KeyError), database.manager.transaction():
            raise KeyError
        other.add("b")
    assert database.texts() == []  # the inner block has failed
    assert other.texts() == ["b"]
    other.rows.close()


@pytest.mark.fact("spring-jms 4.1.2")
@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_template_in_the_transaction_of_another_resource(
    factory: CachingConnectionFactory, database: Database, transacted: bool, end: str
) -> None:
    """Also what `execute` and the other calls with a callback do."""
    template = JmsTemplate(factory, session_transacted=transacted)
    with database.manager.transaction() as status:
        template.execute_producer(
            "q", lambda session, producer: producer.send(session.create_text_message("one"))
        )
        first = template.execute(lambda session: session)
        template.convert_and_send("q", "two")
        assert template.execute(lambda session: session).core is first.core
        assert first.transacted == transacted
        if end == "rollback":
            status.set_rollback_only()
    sent = end == "commit" or not transacted
    assert texts(factory) == (["one", "two"] if sent else [])
    assert template.execute(lambda session: session).core is not first.core  # outside: its own


@pytest.mark.fact("spring-jms 4.1.3")
def test_a_session_that_cannot_be_committed_after_it(
    factory: CachingConnectionFactory, database: Database
) -> None:
    template = JmsTemplate(factory, session_transacted=True)
    with (
        pytest.raises(SynchedLocalTransactionFailedException, match="failed to commit"),
        database.manager.transaction(),
    ):
        template.convert_and_send("q", "lost")
        session = template.execute(lambda session: session)
        closing = Recording("after_commit", session.close)
        closing.order = -1
        register_synchronization(closing)
        database.add("a")
    assert database.texts() == ["a"]  # that stays
    assert texts(factory) == []


@pytest.mark.fact("spring-jms 7.3")
def test_a_jms_manager_has_synchronizations_if_asked(factory: CachingConnectionFactory) -> None:
    """What callbacks send before the end belongs to the transaction, later it does not."""
    with JmsTransactionManager(factory).transaction():
        assert not is_synchronization_active()
    manager = JmsTransactionManager(factory, synchronization=True)
    assert manager.synchronization
    template = JmsTemplate(factory, session_transacted=True)
    before = Recording("before_commit", lambda: template.convert_and_send("q", "before"))
    after = Recording("after_commit", lambda: template.convert_and_send("q", "after"))
    with manager.transaction():
        register_synchronization(before)
        register_synchronization(after)
        template.convert_and_send("q", "in")
    assert before.log == after.log == COMMITTED
    assert before.threads == {threading.current_thread()}
    assert texts(factory) == ["in", "before", "after"]
    with manager.transaction() as status:
        undone = Recording("before_commit", status.set_rollback_only)
        register_synchronization(undone)
        template.convert_and_send("q", "x")
    assert undone.log == ["before_commit", *ROLLED_BACK]
    assert texts(factory) == []


@pytest.mark.fact("spring-jms 7.9")
def test_chained_managers_commit_in_reverse(
    factory: CachingConnectionFactory, database: Database
) -> None:
    template = JmsTemplate(factory)
    chain = ChainedTransactionManager(JmsTransactionManager(factory), database.manager)
    with chain.transaction() as status:
        template.convert_and_send("q", "a")
        database.add("a")
        assert not status.rollback_only
    assert (database.texts(), texts(factory)) == (["a"], ["a"])
    with chain.transaction() as status:
        template.convert_and_send("q", "b")
        database.add("b")
        status.set_rollback_only()
    assert (database.texts(), texts(factory)) == (["a"], [])
    database.fails = True
    with pytest.raises(OSError, match="disk full"), chain.transaction():
        template.convert_and_send("q", "c")
    assert texts(factory) == []
    database.rows.rollback()
    late = ChainedTransactionManager(database.manager, JmsTransactionManager(factory))
    with pytest.raises(HeuristicCompletionException, match="1 of 2"), late.transaction():
        template.convert_and_send("q", "d")
    assert texts(factory) == ["d"]
    database.rows.rollback()
    with pytest.raises(ValueError, match="one manager or more"):
        ChainedTransactionManager()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_a_rollback_follows_an_interruption(database: Database) -> None:
    """Ctrl-C in a callback: the transaction is rolled back in this thread, then it is raised."""
    recording = Recording("before_commit", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), database.manager.transaction():
        register_synchronization(recording)
        database.add("a")
    assert recording.log == ["before_commit", *ROLLED_BACK]
    assert not database.rows.in_transaction
    assert database.texts() == []
    with database.manager.transaction():
        database.add("b")
    assert database.texts() == ["b"]


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interruption_ends_the_wait() -> None:
    """It is raised at once; the rest of the rollback is done in another thread."""

    def interrupt(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    ended = threading.Event()
    last = Recording("after_completion False", ended.set)
    manager = ResourceTransactionManager(lambda: None, lambda _: None, interrupt)
    with pytest.raises(KeyboardInterrupt), manager.transaction():
        register_synchronization(Recording("before_commit", interrupt))
        register_synchronization(last)
    assert ended.wait(20)
    assert last.log == ROLLED_BACK
    assert len(last.threads - {threading.current_thread()}) == 1
    with manager.transaction():  # the loop goes on
        pass


def test_threads_have_separate_transactions(factory: CachingConnectionFactory) -> None:
    begun: list[threading.Thread] = []
    manager = ResourceTransactionManager(
        lambda: begun.append(threading.current_thread()), lambda _: None, lambda _: None
    )

    def work() -> None:
        assert not is_synchronization_active()
        with manager.transaction():
            JmsTemplate(factory, session_transacted=True).convert_and_send("q", "x")

    with manager.transaction():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert texts(factory) == ["x"]
    assert begun == [threading.current_thread(), thread]


def test_a_container_calls_the_resource_in_the_thread_of_its_handler(
    factory: CachingConnectionFactory, tmp_path: Path
) -> None:
    """The listener's session is committed right after the resource. (spring-jms 7.8)"""
    opened: list[Database] = []
    recordings: list[Recording] = []

    def current() -> Database:
        if not opened:
            opened.append(Database(tmp_path / "rows.db"))
        return opened[0]

    manager = ResourceTransactionManager(
        lambda: current().begin(),
        lambda rows: current().commit(rows),
        lambda rows: current().rollback(rows),
    )

    ended: SimpleQueue[None] = SimpleQueue()

    def handle(message: Message) -> None:
        end = "after_completion True" if recordings else "after_completion False"
        recordings.append(Recording(end, lambda: ended.put(None)))
        register_synchronization(recordings[-1])
        current().add(present(message.get_body(str)))
        if len(recordings) == 1:
            raise ValueError("once")

    JmsTemplate(factory).convert_and_send("in", "a")
    with DefaultMessageListenerContainer(
        factory,
        destination_name="in",
        message_listener=handle,
        transaction_manager=manager,
        receive_timeout=0.1,
        error_handler=lambda error: None,
    ):
        ended.get(timeout=20)
        ended.get(timeout=20)
    assert [each.log for each in recordings] == [ROLLED_BACK, COMMITTED]
    (thread,) = recordings[0].threads | recordings[1].threads
    assert thread is not threading.current_thread()
    with sqlite3.connect(tmp_path / "rows.db") as rows:
        assert rows.execute("SELECT text FROM orders").fetchall() == [("a",)]
    assert texts(factory, "in") == []


async def test_a_handler_s_thread_has_its_own_block(jms_app: JmsTestApp) -> None:
    """On the application's event loop, during the consumer's transaction."""
    threads: list[threading.Thread] = []

    def note(*_: object) -> None:
        threads.append(threading.current_thread())

    manager = ResourceTransactionManager(note, note, note)

    @jms_listener("in", id="in")
    def handle(text: str) -> None:
        template = JmsTemplate(ConnectionFactory(jms_app.url), session_transacted=True)
        with manager.transaction():
            register_synchronization(Recording("after_commit", note))
            template.convert_and_send("out", text)
        note()

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("in", "a")
    assert await jms_app.template.receive_and_convert("out", timeout=10) == "a"
    await jms_app.drained("in")
    assert len(threads) == 4  # begin, commit, after_commit, and the handler's own
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
