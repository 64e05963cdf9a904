"""Relays killed at any instant: no message is lost, and the inbox drops duplicates."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.orm import sessionmaker

from pyjms.aio import ConnectionFactory
from pyjms.outbox import metadata, record, send
from pyjms.outbox.tables import OUTBOX, OUTBOX_ID
from tests.kit.processes.children import environment
from tests.kit.processes.forked_python import ForkedPython, run_python

PROGRAM = Path(__file__).with_name("relay_program.py")
COUNT = 40

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""This tests the processes."""


def relay(database: str, broker: str, point: str) -> int:
    done = run_python(str(PROGRAM), database, broker, point, env=environment(), timeout=120)
    return done.returncode


async def received(broker: str, queue: str) -> list[Any]:
    """Return the messages of the queue, and consume them."""
    async with await ConnectionFactory(broker).create_connection() as connection:
        session = await connection.create_session()
        consumer = await session.create_consumer(session.create_queue(queue))
        await connection.start()
        found = []
        while (message := await consumer.receive(1.0)) is not None:
            found.append(message)
        return found


def fill(engine: Engine, queue: str) -> list[str]:
    sessions = sessionmaker(engine)
    ids = []
    for number in range(COUNT):
        with sessions.begin() as session:
            ids.append(send(session, queue, str(number)))
    return ids


def left(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(OUTBOX)).scalar_one()


def handled_once(engine: Engine, messages: list[Any]) -> list[str]:
    """Return the texts of the messages that the inbox has not seen."""
    sessions = sessionmaker(engine)
    handled = []
    for message in messages:
        with sessions.begin() as session:
            if record(session, message):
                handled.append(message.text)
    return handled


POINTS = [
    "before UPDATE",
    "after UPDATE",
    "after SELECT",
    "before DELETE",
    "after DELETE",
    "commit DELETE",
]


def _run_until_ended(commands: list[list[str]], options: dict[str, Any]) -> None:
    """Run the first, which kills itself if it gets its turn, beside the others, which must end."""
    processes = [ForkedPython(command, **options) for command in commands]
    try:
        codes = [process.wait(120) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes[0] in (0, -signal.SIGKILL)
    assert codes[1:] == [0, 0]


@pytest.mark.parametrize(
    "point",
    [
        # the next test is killed there, too
        pytest.param(POINTS[1], marks=pytest.mark.nightly),
        pytest.param(POINTS[2], marks=pytest.mark.nightly),
        POINTS[3],
        POINTS[5],
    ],
)
async def test_a_killed_relay_loses_nothing_and_doubles_nothing(
    point: str, engine: Engine, our_broker: str, name: str
) -> None:
    ids = fill(engine, name)
    url = str(engine.url)
    assert relay(url, our_broker, point) == -signal.SIGKILL
    assert relay(url, our_broker, "-") == 0
    assert left(engine) == 0
    messages = await received(our_broker, name)
    assert {message.properties[OUTBOX_ID] for message in messages} == set(ids)
    if point in ("before DELETE", "after DELETE", "commit DELETE"):
        assert len(messages) == COUNT + 10  # the broker had confirmed these
    assert handled_once(engine, messages) == [str(number) for number in range(COUNT)]


async def test_a_relay_that_is_killed_again_and_again(
    engine: Engine, our_broker: str, name: str
) -> None:
    ids = fill(engine, name)
    for point in POINTS:
        assert relay(str(engine.url), our_broker, point) == -signal.SIGKILL
    assert relay(str(engine.url), our_broker, "-") == 0
    messages = await received(our_broker, name)
    assert {message.properties[OUTBOX_ID] for message in messages} == set(ids)
    assert handled_once(engine, messages) == [str(number) for number in range(COUNT)]


async def test_several_relays_on_postgresql_take_turns_and_one_may_be_killed(
    postgresql: Any, our_broker: str, name: str
) -> None:
    url = postgresql.cluster().url
    engine = create_engine(url)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    ids = fill(engine, name)
    command = [str(PROGRAM), url, our_broker]
    options: Any = {"env": environment(), "stdout": subprocess.DEVNULL}
    _run_until_ended([[*command, point] for point in ("before DELETE", "-", "-")], options)
    assert left(engine) == 0
    messages = await received(our_broker, name)
    assert {message.properties[OUTBOX_ID] for message in messages} == set(ids)
    assert len(messages) in (COUNT, COUNT + 10)  # none but what was sent before the kill
    assert handled_once(engine, messages) == [str(number) for number in range(COUNT)]
    metadata.drop_all(engine)
    engine.dispose()
