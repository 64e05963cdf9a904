"""The inbox: a message's effects in a database once, although its acknowledgement is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from pyjms import ConfigurationException, Message, Skip, TextMessage, jms_listener
from pyjms.outbox import metadata, prune, record, unit_of_work, unit_of_work_async
from pyjms.outbox.tables import OUTBOX_ID
from pyjms.testing.app import JmsTestApp

EFFECTS = Table("effects", MetaData(), Column("number", Integer))


@pytest.fixture
def sessions(tmp_path: Path) -> sessionmaker[Session]:
    engine = create_engine(f"sqlite:///{tmp_path}/inbox.db")
    metadata.create_all(engine)
    EFFECTS.metadata.create_all(engine)
    return sessionmaker(engine)


def count(sessions: sessionmaker[Session]) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(EFFECTS)).one()


async def test_a_lost_acknowledgement_does_not_repeat_the_effects(
    sessions: sessionmaker[Session], jms_app: JmsTestApp
) -> None:
    attempts: list[int] = []

    @jms_listener("orders")
    def handle(number: int, message: Message) -> None:
        attempts.append(number)
        with unit_of_work(sessions, message) as db:
            db.execute(EFFECTS.insert().values(number=number))
        if len(attempts) == 1:
            raise RuntimeError("between the two commits")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", 7)
    await jms_app.drained("orders")
    assert attempts == [7, 7]
    assert count(sessions) == 1


async def test_a_failed_block_is_rolled_back_and_repeated(
    sessions: sessionmaker[Session], jms_app: JmsTestApp
) -> None:
    attempts: list[int] = []

    @jms_listener("orders")
    def handle(number: int, message: Message) -> None:
        attempts.append(number)
        with unit_of_work(sessions, message) as db:
            db.execute(EFFECTS.insert().values(number=number))
            if len(attempts) == 1:
                raise RuntimeError("before the commit")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", 7)
    await jms_app.drained("orders")
    assert attempts == [7, 7]
    assert count(sessions) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async_sessions_do_the_same(
    sessions: sessionmaker[Session], jms_app: JmsTestApp, tmp_path: Path
) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/inbox.db")
    async_sessions = async_sessionmaker(engine)
    attempts: list[int] = []

    @jms_listener("orders")
    async def handle(number: int, message: Message) -> None:
        attempts.append(number)
        async with unit_of_work_async(async_sessions, message) as db:
            await db.execute(EFFECTS.insert().values(number=number))
        if len(attempts) == 1:
            raise RuntimeError("between the two commits")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", 7)
    await jms_app.drained("orders")
    await engine.dispose()
    assert attempts == [7, 7]
    assert count(sessions) == 1


def test_listeners_have_separate_keys(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        assert record(session, "a", listener="one")
        assert not record(session, "a", listener="one")
        assert record(session, "a", listener="two")
        assert prune(session, older_than=3600.0) == 0
        assert prune(session, older_than=-1.0) == 2


def test_the_id_of_an_outbox_comes_before_that_of_the_message(
    sessions: sessionmaker[Session],
) -> None:
    def message(number: int) -> TextMessage:
        made = TextMessage("x")
        made.message_id = f"ID:{number}"
        made.properties[OUTBOX_ID] = "the same"
        return made

    with unit_of_work(sessions, message(1)):
        pass
    with pytest.raises(Skip), unit_of_work(sessions, message(2)):
        raise AssertionError
    with pytest.raises(ConfigurationException), sessions() as session:
        record(session, TextMessage("never received"))
