"""A session that two threads use at once is noticed, and the error names both."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from pyjms import Connection, ConnectionFactory, IllegalStateException, JMSContext, Queue, Session
from pyjms.jms.api import Synchronization
from pyjms.jms.message import Message

_numbers = itertools.count(1)


@pytest.fixture
def connection() -> Iterator[Connection]:
    factory = ConnectionFactory(f"vm://guard-{next(_numbers)}?broker.persistent=false")
    with factory.create_connection() as connection:
        connection.start()
        yield connection


class Waiting:
    """A thread named "receiver" that is in `receive` of a session's consumer."""

    def __init__(self, session: Session | JMSContext) -> None:
        self.consumer = session.create_consumer(Queue("q"))
        self.received: list[Any] = []
        core, entered = self.consumer.core, threading.Event()
        receive = core.receive

        async def signalled(timeout: float | None = None) -> Message | None:
            entered.set()
            return await receive(timeout)

        core.receive = signalled  # type: ignore[method-assign]  # says when the call is there
        self.thread = threading.Thread(target=self._run, name="receiver")
        self.thread.start()
        assert entered.wait(10)

    def _run(self) -> None:
        self.received.append(self.consumer.receive(10))


CALLS: dict[str, Callable[[Session, Any], object]] = {
    "create_producer": lambda session, producer: session.create_producer(Queue("q")),
    "create_browser": lambda session, producer: session.create_browser(Queue("q")),
    "send": lambda session, producer: producer.send(session.create_text_message("x")),
    "recover": lambda session, producer: session.recover(),
}


@pytest.mark.fact("jms-api 2.13", "jms-api 12.1")
@pytest.mark.parametrize("name", CALLS)
def test_both_threads_are_named(connection: Connection, name: str) -> None:
    session = connection.create_session()
    producer = session.create_producer(Queue("q"))
    waiting = Waiting(session)
    with pytest.raises(IllegalStateException) as caught:
        CALLS[name](session, producer)
    assert f"<session {session.core.session_id}> is used by two threads" in str(caught.value)  # type: ignore[attr-defined]
    assert "'receiver'" in str(caught.value)
    assert "create one session for each thread" in str(caught.value)
    assert repr(threading.current_thread().name) in str(caught.value)
    with connection.create_session() as other:  # the way to do it
        other.create_producer(Queue("q")).send(other.create_text_message("hello"))
    waiting.thread.join()
    assert waiting.received[0].text == "hello"
    CALLS[name](session, producer)  # one after the other is fine


def test_a_context_and_its_producer_count_as_a_session() -> None:
    factory = ConnectionFactory(f"vm://guard-{next(_numbers)}?broker.persistent=false")
    with factory.create_context() as context:
        producer = context.create_producer()
        waiting = Waiting(context)
        with pytest.raises(IllegalStateException, match="'receiver' is in a call"):
            producer.send(Queue("q"), "x")
        context.close()
        waiting.thread.join()
        assert waiting.received == [None]


@pytest.mark.fact("jms-api 2.13", "jms-api 12.1")
def test_close_is_allowed_from_any_thread(connection: Connection) -> None:
    session = connection.create_session()
    waiting = Waiting(session)
    session.close()
    waiting.thread.join()
    assert waiting.received == [None]


def test_a_listener_may_use_its_session(connection: Connection) -> None:
    session = connection.create_session(transacted=True)
    producer = session.create_producer(Queue("answers"))
    done = threading.Event()

    def listener(message: Any) -> None:
        producer.send(session.create_text_message(f"{message.text}!"))
        session.commit()
        done.set()

    session.create_consumer(Queue("q")).set_message_listener(listener)
    with connection.create_session() as other:
        other.create_producer(Queue("q")).send(other.create_text_message("hello"))
        assert done.wait(10)
        answer = other.create_consumer(Queue("answers")).receive(10)
    assert answer is not None
    assert answer.text == "hello!"  # type: ignore[attr-defined]


class _Sends(Synchronization):
    def __init__(self, session: Session, producer: Any) -> None:
        self._session, self._producer = session, producer
        self.threads: list[str] = []

    def before_end(self) -> None:
        self.threads.append(threading.current_thread().name)
        self._producer.send(self._session.create_text_message("from the synchronization"))


def test_a_synchronization_may_use_its_session(connection: Connection) -> None:
    session = connection.create_session(transacted=True)
    sends = _Sends(session, session.create_producer(Queue("q")))
    session.add_synchronization(sends)
    session.commit()
    assert sends.threads != [threading.current_thread().name]
    with connection.create_session() as other:
        message = other.create_consumer(Queue("q")).receive(10)
    assert message is not None


def test_a_completion_listener_may_use_its_session(connection: Connection) -> None:
    session = connection.create_session()
    producer = session.create_producer(Queue("q"))
    created: list[object] = []

    class Listener:
        def on_completion(self, message: Any) -> None:
            created.append(session.create_producer(Queue("other")))

        def on_exception(self, message: Any, error: Exception) -> None:
            created.append(error)

    producer.send(session.create_text_message("x"), completion_listener=Listener())
    session.wait_for_completions()
    assert len(created) == 1
    assert not isinstance(created[0], Exception)


def test_a_listener_may_not_use_a_session_that_another_thread_is_in(
    connection: Connection,
) -> None:
    shared = connection.create_session()
    producer = shared.create_producer(Queue("other"))
    waiting = Waiting(shared)
    errors: SimpleQueue[object] = SimpleQueue()

    def listener(message: Any) -> None:
        try:
            producer.send(message)
        except IllegalStateException as error:
            errors.put(error)

    listening = connection.create_session()
    listening.create_consumer(Queue("in")).set_message_listener(listener)
    with connection.create_session() as other:
        other.create_producer(Queue("in")).send(other.create_text_message("hello"))
    assert "'receiver' is in a call" in str(errors.get(timeout=10))
    shared.close()
    waiting.thread.join()
