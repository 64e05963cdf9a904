"""The threads of the blocking API's listeners: each ends with its own listener only."""

from __future__ import annotations

from queue import SimpleQueue

from pyjms import ConnectionFactory, JMSException, Message, Queue, TextMessage
from tests.kit.waiting import LONGEST_WAIT

Q = Queue("q")


class Outcomes:
    """Records what was sent."""

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
        handled: SimpleQueue[str] = SimpleQueue()
        consumer.set_message_listener(lambda message: handled.put(message.text))
        connection.start()
        for text in ("a", "b"):
            producer.send(session.create_text_message(text), completion_listener=outcomes)
            assert handled.get(timeout=LONGEST_WAIT) == text
            session.wait_for_completions()
            for listener in (print, None):
                session.set_message_listener(listener)
    assert outcomes.sent == ["a", "b"]
