"""Tracebacks of blocking calls show the caller's frames and the cause, and none of ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyjms
from pyjms import ConnectionFactory, JmsTemplate, JmsTransactionManager
from pyjms.errors import ConnectionFailedException, JMSException, TransactionRolledBackException
from pyjms.jms.message import Message

URL = "vm://tracebacks?broker.persistent=false"
AWAY: Any = JmsTemplate(ConnectionFactory("tcp://127.0.0.1:1"))
HERE: Any = JmsTemplate(ConnectionFactory(URL))


def creator(session: object) -> object:
    raise RuntimeError("of the application")


def failing_receive() -> Message | None:
    with ConnectionFactory(URL).create_connection() as connection:
        consumer = connection.create_session().create_consumer(pyjms.Queue("q"))
        consumer.close()
        return consumer.receive(1)


def wrong_transaction() -> None:
    with JmsTransactionManager(ConnectionFactory("tcp://127.0.0.1:1")).transaction():
        pass


def files_of(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def functions_of(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: AWAY.convert_and_send("q", "x"),
        lambda: AWAY.receive_and_convert("q", timeout=1),
        AWAY.connection_factory.create_connection,
        lambda: HERE.convert_and_send(None, "x"),
        lambda: HERE.convert_and_send("q", "x", time_to_live="5s"),
        lambda: HERE.convert_and_send("q", None),
        failing_receive,
    ],
)
def test_frames_are_those_of_the_caller(call: Callable[[], object]) -> None:
    with pytest.raises((JMSException, TypeError)) as caught:
        call()
    assert set(files_of(caught.value)) == {__file__}


def test_the_cause_stays_without_frames_of_ours() -> None:
    with pytest.raises(ConnectionFailedException) as caught:
        AWAY.convert_and_send("q", "x")
    cause = caught.value.__cause__
    assert isinstance(cause, OSError)
    text = "".join(traceback.format_exception(caught.value))
    assert "pyjms/sync" not in text
    assert "pyjms/transport" not in text
    assert "The above exception was the direct cause" in text


def test_functions_of_the_application_keep_their_frames() -> None:
    with pytest.raises(RuntimeError) as caught:
        HERE.send("q", creator)
    assert functions_of(caught.value)[-1] == "creator"
    assert set(files_of(caught.value)) == {__file__}


def test_a_block_that_fails_keeps_the_frames_of_the_caller() -> None:
    with pytest.raises(JMSException) as caught:
        wrong_transaction()
    assert not isinstance(caught.value, TransactionRolledBackException)
    assert "wrong_transaction" in functions_of(caught.value)
    assert not any(Path(file).name in {"portal.py", "tcp.py"} for file in files_of(caught.value))


def test_a_defect_of_ours_keeps_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyjms.template.template import JmsTemplate as CoreTemplate

    async def broken(self: object, *args: object) -> None:
        assert not self, "a defect"

    monkeypatch.setattr(CoreTemplate, "convert_and_send", broken)
    with pytest.raises(AssertionError, match="a defect") as caught:
        HERE.convert_and_send("q", "x")
    assert functions_of(caught.value)[-1] == "broken"
