"""Transactions of other resources, synchronizations and chained managers, on the bundled broker."""

from __future__ import annotations

import threading

import anyio
import pytest

from pyjms import ChainedTransactionManager as BlockingChain
from pyjms import ConnectionFactory as BlockingFactory
from pyjms import JmsTemplate as BlockingTemplate
from pyjms import JmsTransactionManager as BlockingManager
from pyjms.client.factory import ConnectionFactory
from pyjms.connection.transaction import (
    ChainedTransactionManager,
    JmsTransactionManager,
    ResourceTransactionManager,
)
from pyjms.errors import (
    HeuristicCompletionException,
    IllegalStateException,
    JMSException,
    SynchedLocalTransactionFailedException,
    TransactionRolledBackException,
)
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.runtime.event_loop import LoopHandle
from pyjms.template.synchronization import (
    TransactionSynchronization,
    is_synchronization_active,
    register_synchronization,
)
from pyjms.template.template import JmsTemplate

OTHER = "vm://other-loop?broker.persistent=false"


class Database:
    """A resource outside JMS, and the calls on it."""

    def __init__(self, name: str = "", log: list[str] | None = None) -> None:
        self.name = name
        self.log: list[str] = [] if log is None else log
        self.fails = False
        self.manager = ResourceTransactionManager(self.begin, self.commit, self.rollback)

    def begin(self) -> str:
        self.log.append(f"{self.name}begin")
        return "transaction"

    async def commit(self, transaction: str) -> None:
        assert transaction == "transaction"
        if self.fails:
            raise OSError("disk full")
        self.log.append(f"{self.name}commit")

    def rollback(self, transaction: str) -> None:
        self.log.append(f"{self.name}rollback")


class Recording(TransactionSynchronization):
    def __init__(self, log: list[str], fails: str = "", order: float = 0) -> None:
        self.log, self.fails, self.order = log, fails, order

    def _note(self, name: str) -> None:
        self.log.append(name)
        if name == self.fails:
            raise ValueError(name)

    def before_commit(self) -> None:
        self._note("before_commit")

    async def before_completion(self) -> None:
        self._note("before_completion")

    async def after_commit(self) -> None:
        self._note("after_commit")

    def after_completion(self, committed: bool) -> None:
        self._note(f"after_completion {committed}")


@pytest.fixture
def database() -> Database:
    return Database()


async def texts(template: JmsTemplate, name: str = "q") -> list[str]:
    found = []
    while (text := await template.receive_and_convert(name, timeout=0.1)) is not None:
        found.append(text)
    return found


COMMITTED = ["begin", "before_commit", "before_completion", "commit", "after_commit"]


@pytest.mark.fact("spring-jms 7.7")
async def test_the_order_of_the_callbacks(database: Database) -> None:
    async with database.manager.transaction("name") as status:
        assert (status.name, status.resource) == ("name", "transaction")
        assert is_synchronization_active()
        register_synchronization(Recording(database.log))
    assert database.log == [*COMMITTED, "after_completion True"]
    database.log.clear()
    with pytest.raises(KeyError):
        async with database.manager.transaction():
            register_synchronization(Recording(database.log))
            raise KeyError
    rolled_back = ["begin", "before_completion", "rollback", "after_completion False"]
    assert database.log == rolled_back
    database.log.clear()
    async with database.manager.transaction() as status:
        register_synchronization(Recording(database.log))
        status.set_rollback_only()
    assert database.log == rolled_back
    assert not is_synchronization_active()
    with pytest.raises(IllegalStateException, match="synchronization is not active"):
        register_synchronization(Recording(database.log))


@pytest.mark.parametrize(
    ("fails", "raises", "log"),
    [
        (
            "before_commit",
            True,
            ["begin", "before_commit", "before_completion", "rollback", "after_completion False"],
        ),
        ("before_completion", False, [*COMMITTED, "after_completion True"]),
        ("after_commit", True, [*COMMITTED, "after_completion True"]),
        ("after_completion True", False, [*COMMITTED, "after_completion True"]),
    ],
)
async def test_callbacks_that_fail(
    fails: str, raises: bool, log: list[str], database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with database.manager.transaction():
            register_synchronization(Recording(database.log, fails))

    if raises:
        with pytest.raises(ValueError, match=fails):
            await run()
    else:
        await run()
        assert "failed" in caplog.text
    assert database.log == log


async def test_a_block_within_joins(database: Database) -> None:
    async with database.manager.transaction() as outer, database.manager.transaction() as inner:
        assert inner is outer
    assert database.log == ["begin", "commit"]
    database.log.clear()
    with pytest.raises(TransactionRolledBackException, match="inner block failed"):
        async with database.manager.transaction():
            with pytest.raises(KeyError):
                async with database.manager.transaction():
                    raise KeyError
    assert database.log == ["begin", "rollback"]
    async with database.manager.transaction() as outer:
        with pytest.raises(KeyError):
            async with database.manager.transaction():
                raise KeyError
        outer.set_rollback_only()  # what has happened is known
    assert database.log == ["begin", "rollback"] * 2


@pytest.mark.fact("spring-jms 7.3")
async def test_a_jms_manager_has_synchronizations_if_asked(
    factory: ConnectionFactory, template: JmsTemplate
) -> None:
    """Not by default, so that it may be used beside a database's."""
    async with JmsTransactionManager(factory).transaction():
        assert not is_synchronization_active()
    log: list[str] = []
    manager = JmsTransactionManager(factory, synchronization=True)
    async with manager.transaction():
        register_synchronization(Recording(log, order=1))
        await template.convert_and_send("q", "x")
    assert log == [*COMMITTED[1:3], "after_commit", "after_completion True"]
    assert await texts(template) == ["x"]
    log.clear()
    with pytest.raises(ValueError, match="before_commit"):
        async with manager.transaction():
            register_synchronization(Recording(log, fails="before_commit"))
            await template.convert_and_send("q", "x")
    assert log == ["before_commit", "before_completion", "after_completion False"]
    assert await texts(template) == []


@pytest.mark.fact("spring-jms 4.1.2")
@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_template_in_the_transaction_of_another_resource(
    transacted: bool, end: str, factory: ConnectionFactory, database: Database
) -> None:
    """A transacted session commits right after; without one, messages are sent at once."""
    other = JmsTemplate(factory, receive_timeout=0.1)
    template = JmsTemplate(factory, session_transacted=transacted)
    async with database.manager.transaction() as status:
        await template.convert_and_send("q", "one")
        await template.convert_and_send("q", "two")
        first = await template.execute(lambda session: session)
        assert await template.execute(lambda session: session) is first  # one for the transaction
        assert first.transacted == transacted
        if end == "rollback":
            status.set_rollback_only()
    assert database.log == ["begin", end]
    sent = end == "commit" or not transacted
    assert await texts(other) == (["one", "two"] if sent else [])
    with pytest.raises(JMSException, match="closed"):
        first.create_text_message("x")
        await first.create_producer(None)


@pytest.mark.fact("spring-jms 4.1.3")
async def test_a_session_that_cannot_be_committed_after_it(
    factory: ConnectionFactory, database: Database
) -> None:
    template = JmsTemplate(factory, session_transacted=True)

    class Closing(TransactionSynchronization):
        order = -1

        async def after_commit(self) -> None:
            await session.close()

    with pytest.raises(SynchedLocalTransactionFailedException, match="failed to commit"):
        async with database.manager.transaction():
            await template.convert_and_send("q", "lost")
            session = await template.execute(lambda session: session)
            register_synchronization(Closing())
    assert database.log == ["begin", "commit"]  # that stays
    assert await texts(JmsTemplate(factory)) == []


@pytest.mark.fact("spring-jms 7.9")
async def test_chained_managers_begin_in_order_and_commit_in_reverse(
    factory: ConnectionFactory, template: JmsTemplate
) -> None:
    log: list[str] = []
    one, two = Database("one ", log), Database("two ", log)
    jms = JmsTransactionManager(factory)
    chain = ChainedTransactionManager(one.manager, jms, two.manager)
    async with chain.transaction() as status:
        await template.convert_and_send("q", "x")
        assert not status.rollback_only
    assert log == ["one begin", "two begin", "two commit", "one commit"]
    assert await texts(template) == ["x"]
    log.clear()
    with pytest.raises(KeyError):
        async with chain.transaction():
            await template.convert_and_send("q", "x")
            raise KeyError
    async with chain.transaction() as status:
        await template.convert_and_send("q", "x")
        status.set_rollback_only()
    assert log == ["one begin", "two begin", "two rollback", "one rollback"] * 2
    log.clear()
    two.fails = True  # the first commit: nothing is committed
    with pytest.raises(OSError, match="disk full"):
        async with chain.transaction():
            await template.convert_and_send("q", "x")
    assert log == ["one begin", "two begin", "one rollback"]
    assert await texts(template) == []
    log.clear()
    two.fails, one.fails = False, True  # the last one: the others stay
    with pytest.raises(HeuristicCompletionException, match="2 of 3 transactions") as raised:
        async with chain.transaction():
            await template.convert_and_send("q", "x")
    assert isinstance(raised.value.__cause__, OSError)
    assert log == ["one begin", "two begin", "two commit"]
    assert await texts(template) == ["x"]
    with pytest.raises(ValueError, match="one manager or more"):
        ChainedTransactionManager()


async def test_a_chain_that_cannot_begin_is_rolled_back(factory: ConnectionFactory) -> None:
    log: list[str] = []

    def refuse() -> None:
        raise OSError("no connection")

    chain = ChainedTransactionManager(
        Database("one ", log).manager, ResourceTransactionManager(refuse, print, print)
    )
    with pytest.raises(OSError, match="no connection"):
        async with chain.transaction():
            raise AssertionError
    assert log == ["one begin", "one rollback"]


async def test_a_block_of_a_chain_that_joined_and_failed(factory: ConnectionFactory) -> None:
    jms = JmsTransactionManager(factory)
    with pytest.raises(TransactionRolledBackException):
        async with ChainedTransactionManager(jms).transaction():
            with pytest.raises(KeyError):
                async with jms.transaction():
                    raise KeyError


async def test_what_is_sent_before_the_end_belongs_to_it_and_after_it_does_not(
    factory: ConnectionFactory, database: Database
) -> None:
    template = JmsTemplate(factory, session_transacted=True)

    class Sending(TransactionSynchronization):
        def __init__(self, fails: bool) -> None:
            self.fails = fails

        async def before_commit(self) -> None:
            await template.convert_and_send("q", "before")
            if self.fails:
                raise ValueError

        async def after_commit(self) -> None:
            assert not is_synchronization_active()
            await template.convert_and_send("q", "after")

    jms = JmsTransactionManager(factory, synchronization=True)
    for manager in (database.manager, jms):
        async with manager.transaction():
            register_synchronization(Sending(fails=False))
        # that of a resource commits its session after the callbacks that it was opened by
        assert sorted(await texts(template)) == ["after", "before"]
        with pytest.raises(ValueError):
            async with manager.transaction():
                register_synchronization(Sending(fails=True))
        assert await texts(template) == []


async def test_before_commit_may_request_a_rollback(
    factory: ConnectionFactory, template: JmsTemplate, database: Database
) -> None:
    class Undoing(Recording):
        def before_commit(self) -> None:
            status.set_rollback_only()

    async with JmsTransactionManager(factory, synchronization=True).transaction() as status:
        register_synchronization(Undoing(database.log))
        await template.convert_and_send("q", "x")
    rolled_back = ["before_completion", "after_completion False"]
    assert database.log == rolled_back
    assert await texts(template) == []
    database.log.clear()
    async with database.manager.transaction() as status:  # type: ignore[assignment]
        register_synchronization(Undoing(database.log))
    assert database.log == ["begin", rolled_back[0], "rollback", rolled_back[1]]


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_handlers_callbacks_are_called_where_it_runs(
    factory: ConnectionFactory, template: JmsTemplate, database: Database, kind: str
) -> None:
    """In the consumer's thread, where they may block, or on the loop."""
    seen: list[threading.Thread] = []
    ended = anyio.Event()

    class Noting(TransactionSynchronization):
        def before_commit(self) -> None:
            seen.append(threading.current_thread())

        async def after_commit(self) -> None:  # a coroutine is awaited on the loop
            ended.set()

        def after_completion(self, committed: bool) -> None:
            seen.append(threading.current_thread())

    def in_thread(message: object) -> None:
        seen.append(threading.current_thread())
        register_synchronization(Noting())

    async def on_loop(message: object) -> None:
        in_thread(message)

    container = DefaultMessageListenerContainer(
        factory,
        destination_name="in",
        message_listener=in_thread if kind == "def" else on_loop,
        transaction_manager=database.manager,
    )
    await template.convert_and_send("in", "x")
    await container.start()
    with anyio.fail_after(20):
        await ended.wait()
    await container.shutdown()
    assert len(seen) == 3
    assert (set(seen) == {threading.current_thread()}) is (kind == "async def")
    assert len(set(seen)) == 1


async def test_a_template_of_another_loop_is_refused(database: Database) -> None:
    def send() -> None:
        BlockingTemplate(BlockingFactory(OTHER)).convert_and_send("q", "x")

    async with database.manager.transaction():
        with pytest.raises(IllegalStateException, match="another event loop than the transaction"):
            await anyio.to_thread.run_sync(send)


async def test_a_chain_of_blocking_managers_is_of_one_loop() -> None:
    one, two = (BlockingManager(BlockingFactory(OTHER)) for _ in range(2))
    assert BlockingChain(one, two).loop is one.loop
    two.loop = LoopHandle()
    with pytest.raises(IllegalStateException, match="different event loops"):
        BlockingChain(one, two)
