"""Asynchronous sends of the blocking API: their listeners run in a thread, and may block."""

from __future__ import annotations

import threading

import pytest

from pyjms import ConnectionFactory, IllegalStateException, Queue

Q = Queue("q")


class Listener:
    """A completion listener that makes blocking calls."""

    def __init__(self, session, call: str) -> None:
        self.session, self.call = session, call
        self.threads: set[str] = set()
        self.refused: list[str] = []

    def on_completion(self, message) -> None:
        self.threads.add(threading.current_thread().name)
        with pytest.raises(IllegalStateException, match="completion listener") as error:
            getattr(self.session, self.call)()
        self.refused.append(f"{message.text}: {error.value}")

    def on_exception(self, message, error) -> None:
        raise AssertionError(error)


@pytest.mark.fact("jms-api 3.11")
@pytest.mark.parametrize(
    ("transacted", "call"), [(True, "commit"), (True, "close"), (False, "close")]
)
def test_listeners_run_in_a_thread_of_their_own(transacted: bool, call: str) -> None:
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
