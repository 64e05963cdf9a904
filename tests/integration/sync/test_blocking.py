"""The blocking face on the real broker: from threads, with listeners, interrupted."""

from __future__ import annotations

import itertools
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from pyjms import (
    AcknowledgeMode,
    CachingConnectionFactory,
    Connection,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    IllegalStateException,
    JmsTemplate,
    JmsTransactionManager,
    Queue,
    SingleConnectionFactory,
    Topic,
    UnsupportedOperationException,
    aio,
)
from pyjms.jms.message import Message, TextMessage
from pyjms.sync.portal import call_on_loop, shared_loop
from pyjms.transactions import LocalTransactionEventListener, Synchronization
from tests.kit.clients.messages import text_of
from tests.kit.values import present

_numbers = itertools.count(1)


@pytest.fixture
def factory() -> ConnectionFactory:
    return ConnectionFactory(f"vm://sync-{next(_numbers)}?broker.persistent=false")


@pytest.fixture
def connection(factory: ConnectionFactory) -> Iterator[Connection]:
    with factory.create_connection() as connection:
        connection.start()
        yield connection


def threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("pyjms listener")}


def end_of(thread_name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == thread_name:
            thread.join(10)


@pytest.mark.parametrize("cached", [False, True])
def test_a_producer_sends_to_a_destination_given_first(
    factory: ConnectionFactory, cached: bool
) -> None:
    used = CachingConnectionFactory(factory) if cached else factory
    with used.create_connection() as connection, connection.create_session() as session:
        connection.start()
        message = session.create_text_message("x")
        session.create_producer(None).send(Queue("first"), message, time_to_live=60.0)
        with pytest.raises(UnsupportedOperationException):
            session.create_producer(Queue("own")).send(Queue("first"), message)
        with pytest.raises(TypeError, match="The destination comes first"):
            session.create_producer(None).send(message, Queue("first"))  # type: ignore[call-overload]
        received = session.create_consumer(Queue("first")).receive(5.0)
        assert isinstance(received, TextMessage)
        assert received.text == "x"
        assert received is not None
        assert received.expiration - received.timestamp == 60_000


def test_messages_of_all_kinds_go_round(connection: Connection) -> None:
    with connection.create_session() as session:
        target = session.create_queue("kinds")
        assert target == Queue("kinds")
        assert session.create_topic("t") == Topic("t")
        producer = session.create_producer(target)
        numbers = session.create_map_message()
        numbers["n"] = 1
        sent = [
            session.create_text_message("text"),
            session.create_bytes_message(b"bytes"),
            session.create_message(),
            session.create_stream_message(),
            session.create_object_message(b"\xac\xed"),
        ]
        for message in sent:
            producer.send(message, priority=7)
        with session.create_consumer(target) as consumer:
            got = [consumer.receive(5) for _ in sent]
            assert [type(m) for m in got] == [type(m) for m in sent]
            assert {present(m).priority for m in got} == {7}
            assert consumer.receive_no_wait() is None
            assert consumer.destination == target


def test_properties_of_producers_sessions_and_connections(connection: Connection) -> None:
    session = connection.create_session(acknowledge_mode=AcknowledgeMode.CLIENT)
    assert (session.transacted, session.acknowledge_mode) == (False, AcknowledgeMode.CLIENT)
    producer = session.create_producer(Queue("p"))
    producer.priority, producer.time_to_live = 2, 3.0
    producer.disable_message_id = producer.disable_message_timestamp = True
    core = producer.core
    assert (core.priority, core.time_to_live) == (2, 3.0)
    assert core.disable_message_id
    assert core.disable_message_timestamp
    assert producer.destination == Queue("p")
    assert connection.client_id
    assert connection.metadata.jms_version
    assert "blocking" in repr(session)


def test_a_transaction_commits_and_rolls_back(connection: Connection) -> None:
    with connection.create_session(transacted=True) as session:
        target = session.create_queue("tx")
        producer = session.create_producer(target)
        producer.send(session.create_text_message("lost"))
        session.rollback()
        producer.send(session.create_text_message("kept"))
        session.commit()
        consumer = session.create_consumer(target)
        assert text_of(consumer.receive(5)) == "kept"
        session.commit()
        assert consumer.receive_no_wait() is None


def test_synchronizations_block_in_threads_and_may_use_the_session(connection: Connection) -> None:
    session = connection.create_session(True)
    queue = session.create_queue("synchronized")
    producer = session.create_producer(queue)
    calls: list[str] = []

    class Last(Synchronization, LocalTransactionEventListener):
        def before_end(self) -> None:
            producer.send(session.create_text_message("last"))

        def after_commit(self) -> None:
            calls.append("committed")

        def begin_event(self) -> None:
            calls.append("begin")

    session.set_local_transaction_event_listener(Last())
    session.add_synchronization(Last())
    session.commit()
    assert calls == ["begin", "committed"]
    connection.start()
    consumer = session.create_consumer(queue)
    assert text_of(consumer.receive(5)) == "last"
    session.commit()
    with pytest.raises(IllegalStateException, match="Not a transacted session"):
        connection.create_session().add_synchronization(Last())


def test_acknowledge_works_from_any_thread(connection: Connection) -> None:
    session = connection.create_session(acknowledge_mode=AcknowledgeMode.CLIENT)
    target = session.create_queue("ack")
    session.create_producer(target).send(session.create_text_message("x"))
    message = session.create_consumer(target).receive(5)
    assert message is not None
    thread = threading.Thread(target=call_on_loop, args=(connection.loop, message.acknowledge))
    thread.start()
    thread.join(10)
    session.close()
    other = connection.create_session()
    assert other.create_consumer(target).receive_no_wait() is None


def test_a_browser_is_a_plain_iterable(connection: Connection) -> None:
    session = connection.create_session()
    target = session.create_queue("browse")
    producer = session.create_producer(target)
    for text in "abc":
        producer.send(session.create_text_message(text))
    with session.create_browser(target) as browser:
        assert [text_of(m) for m in browser] == ["a", "b", "c"]
        assert browser.queue == target


def test_a_listener_runs_in_a_thread_that_ends_with_its_consumer(connection: Connection) -> None:
    before = threads()
    got: queue.SimpleQueue[tuple[str | None, str]] = queue.SimpleQueue()

    def listener(message: Message) -> None:
        # it may block: it is not on the loop
        with connection.create_session() as own:
            assert isinstance(message, TextMessage)
            own.create_producer(Queue("heard")).send(own.create_text_message(message.text))
        assert isinstance(message, TextMessage)
        got.put((message.text, threading.current_thread().name))

    session = connection.create_session()
    consumer = session.create_consumer(Queue("listen"))
    consumer.set_message_listener(listener)
    sender = connection.create_session()
    sender.create_producer(Queue("listen")).send(sender.create_text_message("x"))
    text, name = got.get(timeout=10)
    assert text == "x"
    assert name in threads() - before
    assert text_of(sender.create_consumer(Queue("heard")).receive(5)) == "x"
    consumer.close()
    end_of(name)
    assert threads() == before


@pytest.mark.parametrize("close", ["session", "connection", "replace"])
def test_threads_end_with_what_is_closed(factory: ConnectionFactory, close: str) -> None:
    before = threads()
    connection = factory.create_connection()
    connection.start()
    session = connection.create_session()
    got: queue.SimpleQueue[str] = queue.SimpleQueue()
    consumer = session.create_consumer(Queue("listen"))
    consumer.set_message_listener(lambda m: got.put(threading.current_thread().name))
    sender = connection.create_session()
    sender.create_producer(Queue("listen")).send(sender.create_text_message("x"))
    name = got.get(timeout=10)
    if close == "replace":
        consumer.set_message_listener(None)
    else:
        (session if close == "session" else connection).close()
    end_of(name)
    assert threads() == before
    connection.close()


def test_the_template_and_its_callbacks(factory: ConnectionFactory) -> None:
    caching = CachingConnectionFactory(factory)
    template = JmsTemplate(caching, receive_timeout=5.0, default_destination_name="there")
    template.convert_and_send(None, {"n": 1})
    template.send("there", lambda session: session.create_text_message("made"))
    names = template.browse("there", lambda _session, browser: [type(m).__name__ for m in browser])
    assert len(names) == 2
    assert template.receive_and_convert() == {"n": 1}
    assert text_of(template.receive()) == "made"
    assert template.execute(lambda session: session.transacted) is False
    template.execute_producer(
        "there", lambda session, producer: producer.send(session.create_text_message("by hand"))
    )
    assert template.receive_and_convert("there") == "by hand"
    caching.destroy()


def test_a_transaction_manager_is_joined_by_templates_of_its_factory(
    factory: ConnectionFactory,
) -> None:
    single = SingleConnectionFactory(factory)
    template = JmsTemplate(single, receive_timeout=0)
    manager = JmsTransactionManager(single)
    with pytest.raises(ValueError, match="undo"), manager.transaction():
        template.convert_and_send("tx", "lost")
        raise ValueError("undo")
    with manager.transaction():
        template.convert_and_send("tx", "kept")
        assert template.browse("tx", lambda _s, browser: list(browser)) == []
    assert template.receive_and_convert("tx") == "kept"
    assert template.receive("tx") is None
    single.destroy()


def test_a_container_calls_plain_functions(factory: ConnectionFactory) -> None:
    single = CachingConnectionFactory(factory)
    template = JmsTemplate(single)
    got: queue.SimpleQueue[str] = queue.SimpleQueue()
    container = DefaultMessageListenerContainer(
        factory, destination_name="work", message_listener=lambda m: got.put(m.text)
    )
    with container:
        assert container.is_running
        template.convert_and_send("work", "x")
        assert got.get(timeout=10) == "x"
        assert container.scheduled_consumer_count == 1
    assert not container.is_active
    single.destroy()


async def test_on_the_loop_that_does_the_work_it_raises(anyio_backend: str) -> None:
    from pyjms.runtime.event_loop import LoopHandle

    with pytest.raises(IllegalStateException, match="would never return"):
        call_on_loop(LoopHandle(), anyio.lowlevel.checkpoint)


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Interrupt the main thread once, as Ctrl-C does; to be called in another thread.

    A signal that comes in the instant before the main thread blocks takes effect when it wakes
    up, so the signal is sent until Python has handled it.
    """
    main = threading.main_thread()
    assert threading.current_thread() is main
    handled, senders = threading.Event(), []

    def handle(_number: int, _frame: object) -> None:
        if not handled.is_set():
            handled.set()
            raise KeyboardInterrupt

    def send() -> None:
        while not handled.is_set():
            signal.pthread_kill(present(main.ident), signal.SIGINT)
            handled.wait(0.05)

    def start() -> None:
        senders.append(threading.Thread(target=send))
        senders[-1].start()

    before = signal.signal(signal.SIGINT, handle)
    yield start
    for sender in senders:
        sender.join()
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_receive_loses_no_message(
    connection: Connection, interrupt: Callable[[], None]
) -> None:
    session = connection.create_session()
    target = session.create_queue("interrupt")
    consumer = session.create_consumer(target)
    # on the loop, once the receive is under way there
    shared_loop().call_soon(shared_loop().call_soon, interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.receive(30)
    sender = connection.create_session()
    sender.create_producer(target).send(sender.create_text_message("x"))
    assert text_of(consumer.receive(5)) == "x"


class InterruptedLoop:
    """The shared loop, where an interruption takes effect when the current call is done."""

    def __init__(self, done: threading.Event) -> None:
        self._loop = shared_loop()
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        self._loop.call_soon(function, *args)
        if not self._done.is_set():
            assert self._done.wait(10)
            raise KeyboardInterrupt


def test_the_result_of_a_call_that_is_interrupted_when_it_has_one_is_kept() -> None:
    done = threading.Event()
    kept: queue.SimpleQueue[str] = queue.SimpleQueue()
    loop: Any = InterruptedLoop(done)

    async def receive() -> str:
        # after this turn of the loop, in which the result is set
        shared_loop().call_soon(shared_loop().call_soon, done.set)
        return "x"

    with pytest.raises(KeyboardInterrupt):
        call_on_loop(loop, receive, keep=kept.put)
    assert kept.get(timeout=10) == "x"


def test_errors_come_out_as_they_are(connection: Connection) -> None:
    session = connection.create_session()
    session.close()
    with pytest.raises(IllegalStateException):
        session.create_producer(Queue("x"))
    with pytest.raises(IllegalStateException):
        connection.create_session().commit()


async def test_a_factory_of_the_loop_gets_no_blocking_template() -> None:
    url = f"vm://sync-{next(_numbers)}?broker.persistent=false"
    with pytest.raises(
        IllegalStateException, match=r"CachingConnectionFactory is a class of pyjms.aio"
    ):
        JmsTemplate(aio.CachingConnectionFactory(aio.ConnectionFactory(url)))
