"""The threads of the blocking API's listeners: each ends with its own listener only."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from pyjms import ConnectionFactory, JMSException, Message, Queue, TextMessage
from tests.kit.clients.messages import text_of
from tests.kit.waiting import LONGEST_WAIT

Q = Queue("q")


class Outcomes:
    """Records sent messages."""

    def __init__(self) -> None:
        self.sent: list[str | None] = []

    def on_completion(self, message: Message) -> None:
        assert isinstance(message, TextMessage)
        self.sent.append(message.text)

    def on_exception(self, message: Message, error: JMSException) -> None:
        raise AssertionError(error)


def test_a_session_listener_ends_no_other_listeners_thread() -> None:
    factory = ConnectionFactory("vm://threads?broker.persistent=false", close_timeout=1.0)
    outcomes = Outcomes()
    with factory.create_connection() as connection:
        session = connection.create_session()
        producer, consumer = session.create_producer(Q), session.create_consumer(Q)
        handled: SimpleQueue[str | None] = SimpleQueue()
        consumer.set_message_listener(lambda message: handled.put(text_of(message)))
        connection.start()
        for text in ("a", "b"):
            producer.send(session.create_text_message(text), completion_listener=outcomes)
            assert handled.get(timeout=LONGEST_WAIT) == text
            session.wait_for_completions()
            for listener in (print, None):
                session.set_message_listener(listener)
    assert outcomes.sent == ["a", "b"]


@pytest.mark.parametrize(("query", "at_once"), [("", 2), ("&jms.alwaysSessionAsync=false", 1)])
def test_listeners_of_two_sessions_run_at_once_unless_they_take_turns(
    query: str, at_once: int
) -> None:
    factory = ConnectionFactory(f"vm://turns-{at_once}?broker.persistent=false{query}")
    together = threading.Barrier(2)
    handled: SimpleQueue[bool] = SimpleQueue()

    def listen(_: Message) -> None:
        try:  # the other listener arrives only if it runs meanwhile
            together.wait(LONGEST_WAIT if at_once == 2 else 0.05)
        except threading.BrokenBarrierError:
            handled.put(False)
        else:
            handled.put(True)

    with factory.create_connection() as connection:
        for name in ("a", "b"):
            session = connection.create_session()
            session.create_producer(Queue(name)).send(session.create_text_message(name))
            session.create_consumer(Queue(name)).set_message_listener(listen)
        connection.start()
        met = [handled.get(timeout=LONGEST_WAIT) for _ in "ab"]
    assert met == [at_once == 2] * 2
