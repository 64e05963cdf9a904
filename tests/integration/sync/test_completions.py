"""Asynchronous sends of the blocking API: their listeners run in a thread, and may block."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    IllegalStateException,
    JMSException,
    JmsPoolConnectionFactory,
    Queue,
    Session,
    SingleConnectionFactory,
)
from pyjms.jms.message import Message, TextMessage

Q = Queue("q")
_numbers = itertools.count(1)


class Listener:
    """A completion listener that makes blocking calls."""

    def __init__(self, session: Session | None, call: str) -> None:
        self.session, self.call = session, call
        self.threads: set[str] = set()
        self.refused: list[str] = []

    def on_completion(self, message: Message) -> None:
        self.threads.add(threading.current_thread().name)
        with pytest.raises(IllegalStateException, match="completion listener") as error:
            getattr(self.session, self.call)()
        assert isinstance(message, TextMessage)
        self.refused.append(f"{message.text}: {error.value}")

    def on_exception(self, message: Message, error: Exception) -> None:
        raise AssertionError(error)


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.parametrize(
    ("transacted", "call"), [(True, "commit"), (True, "close"), (False, "close")]
)
def test_listeners_run_in_a_separate_thread(transacted: bool, call: str) -> None:
    factory = ConnectionFactory("vm://completions?broker.persistent=false")
    with factory.create_connection() as connection:
        session = connection.create_session(transacted)
        listener = Listener(session, call)
        producer = session.create_producer(Q)
        for text in ("a", "b"):
            producer.send(session.create_text_message(text), completion_listener=listener)
        getattr(session, call)()
        assert [text[0] for text in listener.refused] == ["a", "b"]
        (name,) = listener.threads
        assert name.startswith("pyjms listener of")
        assert threading.current_thread().name != name
        producer.close()
        for thread in threading.enumerate():
            if thread.name == name:
                thread.join(10)
                assert not thread.is_alive()


class Callback:
    """An AsyncCallback of ActiveMQ, which notes the thread of each call."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def on_success(self) -> None:
        self.threads.append(threading.current_thread().name)

    def on_exception(self, error: JMSException) -> None:
        raise AssertionError(error)


@pytest.mark.fact("activemq-edges N22")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda factory: factory,
        SingleConnectionFactory,
        CachingConnectionFactory,
        JmsPoolConnectionFactory,
    ],
    ids=["native", "single", "caching", "pool"],
)
def test_the_callback_of_activemq_runs_in_a_thread_too(wrap: Any) -> None:
    callback = Callback()
    url = f"vm://callbacks-{next(_numbers)}?broker.persistent=false"
    factory = wrap(ConnectionFactory(url))
    with factory.create_connection() as connection, connection.create_session() as session:
        producer = session.create_producer()
        producer.send(Q, session.create_text_message("a"), callback)
        producer.send(session.create_text_message("b"), destination=Q, callback=callback)
        session.wait_for_completions()
        assert len(callback.threads) == 2
        assert {name.startswith("pyjms listener of") for name in callback.threads} == {True}
        connection.start()
        consumer = session.create_consumer(Q)
        assert [consumer.receive(5.0).text for _ in "ab"] == ["a", "b"]


def test_an_object_without_the_methods_is_refused_at_once() -> None:
    with ConnectionFactory("vm://callbacks?broker.persistent=false").create_context() as context:
        producer = context.session().create_producer(Q)
        message = context.create_text_message("a")
        wrong: Any = object()
        with pytest.raises(TypeError, match=r"has no on_completion\(\)"):
            producer.send(message, completion_listener=wrong)
        with pytest.raises(TypeError, match=r"has no on_success\(\)"):
            producer.send(message, callback=wrong)
        with pytest.raises(TypeError, match=r"has no on_completion\(\)"):
            context.create_producer().set_async(wrong)
        with pytest.raises(TypeError, match="not both"):
            producer.send(message, completion_listener=Listener(None, ""), callback=Callback())
