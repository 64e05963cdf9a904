"""`Resource` providers of the container: opened and closed with the application, or for a message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from dependency_injector import containers, providers, resources
from dependency_injector.wiring import Closing, Provide

from pyjms import ApplicationContainer, Batch, PyjmsSettings, jms_listener, on_shutdown, on_startup
from pyjms.aio import Session
from pyjms.errors import ConfigurationException, Skip
from pyjms.jms.api import Synchronization
from pyjms.jms.message import Message
from pyjms.testing.app import JmsTestApp

LOG: list[str] = []


@pytest.fixture(autouse=True)
def log() -> None:
    LOG.clear()


def open_pool() -> Iterator[str]:
    LOG.append("pool opened")
    yield "pool"
    LOG.append("pool closed")


async def open_channel(pool: str) -> AsyncIterator[str]:
    LOG.append("channel opened")
    yield f"channel of {pool}"
    LOG.append("channel closed")


async def find_address(channel: str) -> str:
    return f"address by {channel}"


class Cache(resources.AsyncResource[str]):
    async def init(self, *_args: Any, **_kwargs: Any) -> str:
        return "cache"

    async def shutdown(self, resource: str | None) -> None:
        LOG.append(f"{resource} closed")


class Inner(containers.DeclarativeContainer):
    pool = providers.Resource(open_pool)
    cache = providers.Resource(Cache)


class Services(ApplicationContainer):
    inner = providers.Container(Inner)
    channel = providers.Resource(open_channel, inner.pool)
    address = providers.Resource(find_address, channel)
    summary = providers.Factory("{} with {}".format, address, inner.cache)


Summary = Annotated[str, Provide["summary"]]


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_resources_live_as_long_as_the_application(kind: str, jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, summary: Summary) -> None:
        LOG.append(summary)

    @jms_listener("r", id="r")
    def on_text_in_thread(text: str, summary: Summary) -> None:
        LOG.append(summary)

    @on_startup
    async def begin(channel: Annotated[str, Provide["channel"]]) -> None:
        LOG.append("hook of start")

    @on_shutdown
    async def end() -> None:
        LOG.append("hook of stop")

    handler = on_text if kind == "async def" else on_text_in_thread
    await jms_app.start(handler, begin, end, container=Services)
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r", raise_errors=True)
    await jms_app.stop()
    opened, closed = LOG[:4], LOG[5:]
    assert opened == [
        "pool opened",
        "channel opened",
        "hook of start",
        "address by channel of pool with cache",
    ]
    assert LOG[4] == "hook of stop"
    assert sorted(closed) == ["cache closed", "channel closed", "pool closed"]
    assert closed.index("channel closed") < closed.index("pool closed")


async def test_a_resource_that_a_test_replaces_is_not_opened(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, channel: Annotated[str, Provide["channel"]]) -> None:
        LOG.append(channel)

    services = Services()
    services.channel.override(providers.Object("fake"))
    await jms_app.start(on_text, container=services)
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r", raise_errors=True)
    assert "fake" in LOG
    assert "channel opened" not in LOG


async def test_a_resource_that_cannot_be_opened_stops_the_start(jms_app: JmsTestApp) -> None:
    def fail(pool: str) -> Iterator[str]:
        if pool:
            raise OSError("no database")
        yield pool

    class Failing(ApplicationContainer):
        pool = providers.Resource(open_pool)
        database = providers.Resource(fail, pool)

    with pytest.raises(OSError, match="no database") as caught:
        await jms_app.start(on_startup(lambda: None), container=Failing)
    assert caught.value.__notes__ == ["It was raised by the resource database of the container."]
    assert LOG == ["pool opened", "pool closed"]


# for each message


class _Refusal(Synchronization):
    """Makes the commit fail."""

    def before_end(self) -> None:
        raise ValueError("refused")


class Database:
    """A session of a database, by which the tests see what becomes of it."""

    count = 0

    def __init__(self) -> None:
        type(self).count += 1
        self.number = type(self).count


@contextmanager
def open_database() -> Iterator[Database]:
    database = Database()
    LOG.append(f"{database.number} opened")
    try:
        yield database
    except Exception as error:
        LOG.append(f"{database.number} {type(error).__name__}")
        raise
    else:
        LOG.append(f"{database.number} committed")
    finally:
        LOG.append(f"{database.number} closed")


async def open_database_async() -> AsyncIterator[Database]:
    with open_database() as database:
        yield database


class Repository:
    def __init__(self, database: Database) -> None:
        self.database = database


def services_of(function: Callable[..., object]) -> type[ApplicationContainer]:
    """Return a container whose database is opened by `function`."""
    Database.count = 0

    class OfMessages(ApplicationContainer):
        database = providers.Resource(function)
        repository = providers.Factory(Repository, database)

    return OfMessages


async def test_what_a_resource_of_messages_needs_belongs_to_the_application(
    jms_app: JmsTestApp,
) -> None:
    class OfMessages(ApplicationContainer):
        pool = providers.Resource(open_pool)
        channel = providers.Resource(open_channel, pool)

    @jms_listener("r", id="r")
    async def on_text(text: str, channel: Annotated[str, Closing[Provide["channel"]]]) -> None:
        LOG.append(f"{text} {channel}")

    await jms_app.start(on_text, container=OfMessages)
    for text in "ab":
        await jms_app.template.convert_and_send("r", text)
    await jms_app.drained("r", raise_errors=True)
    await jms_app.stop()
    assert [
        "pool opened",
        *("channel opened", "a channel of pool", "channel closed"),
        *("channel opened", "b channel of pool", "channel closed"),
        "pool closed",
    ] == LOG


OPENERS = pytest.mark.parametrize(
    "opener", [open_database, open_database_async], ids=["plain", "asynchronous"]
)
Given = Annotated[Repository, Closing[Provide["repository"]]]


@OPENERS
@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_each_message_has_its_own_until_it_is_committed(
    opener: Callable[..., object], kind: str, jms_app: JmsTestApp
) -> None:
    @jms_listener("r", id="r")
    async def on_text(
        text: str, repository: Given, again: Annotated[Database, Provide["database"]]
    ) -> None:
        LOG.append(f"{repository.database.number} {text} {again is repository.database}")

    @jms_listener("r", id="r")
    def on_text_in_thread(
        text: str, repository: Given, again: Annotated[Database, Provide["database"]]
    ) -> None:
        LOG.append(f"{repository.database.number} {text} {again is repository.database}")

    handler = on_text if kind == "async def" else on_text_in_thread
    await jms_app.start(handler, container=services_of(opener))
    for text in "ab":
        await jms_app.template.convert_and_send("r", text)
    await jms_app.drained("r", raise_errors=True)
    await jms_app.stop()
    assert [
        *("1 opened", "1 a True", "1 committed", "1 closed"),
        *("2 opened", "2 b True", "2 committed", "2 closed"),
    ] == LOG


@OPENERS
async def test_a_failure_is_raised_in_the_resource(
    opener: Callable[..., object], jms_app: JmsTestApp
) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, repository: Given) -> None:
        if repository.database.number == 1:
            raise ValueError("first attempt")

    await jms_app.start(on_text, container=services_of(opener))
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r")
    await jms_app.stop()
    assert [
        *("1 opened", "1 ValueError", "1 closed"),
        *("2 opened", "2 committed", "2 closed"),
    ] == LOG


async def test_a_rollback_after_the_handler_is_raised_in_the_resource(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, repository: Given, session: Session) -> None:
        if repository.database.number == 1:
            session.add_synchronization(_Refusal())

    await jms_app.start(on_text, container=services_of(open_database))
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r")
    await jms_app.stop()
    assert [
        *("1 opened", "1 TransactionRolledBackException", "1 closed"),
        *("2 opened", "2 committed", "2 closed"),
    ] == LOG


@pytest.mark.parametrize(
    ("refused", "outcome"),
    [(False, "committed already, so not redelivered"), (True, "rolled back")],
)
async def test_a_failure_to_close_says_what_became_of_the_message(
    refused: bool, outcome: str, jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    ids: list[str | None] = []

    def open_broken() -> Iterator[str]:
        try:
            yield "database"
        finally:
            if len(ids) == 1:
                raise OSError("the database is gone")

    class Broken(ApplicationContainer):
        database = providers.Resource(open_broken)

    @jms_listener("r", id="r")
    async def on_text(
        message: Message, database: Annotated[str, Closing[Provide["database"]]], session: Session
    ) -> None:
        ids.append(message.message_id)
        if refused and len(ids) == 1:
            session.add_synchronization(_Refusal())

    await jms_app.start(on_text, container=Broken)
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r")
    await jms_app.stop()
    (said,) = [each.getMessage() for each in caplog.records if each.name.endswith("app.resources")]
    assert said == f"Resource database could not be closed, message {ids[0]}: {outcome}"
    assert len(ids) == 1 + refused


async def test_a_skipped_message_is_committed(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, repository: Given) -> None:
        raise Skip

    await jms_app.start(on_text, container=services_of(open_database))
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r")
    await jms_app.stop()
    assert LOG == ["1 opened", "1 committed", "1 closed"]


async def test_without_a_transaction_it_ends_with_the_handler(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, repository: Given) -> None:
        LOG.append(text)

    jms = {"listener": {"session": {"transacted": False}}}
    settings = PyjmsSettings.model_validate({"jms": jms})
    await jms_app.start(on_text, container=services_of(open_database), settings=settings)
    await jms_app.template.convert_and_send("r", "x")
    await jms_app.drained("r", raise_errors=True)
    assert LOG == ["1 opened", "x", "1 committed", "1 closed"]


async def test_a_batch_has_one(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r", batch_size=2)
    async def on_batch(texts: Batch[str], repository: Given) -> None:
        LOG.append("".join(texts))

    await jms_app.start(on_batch, container=services_of(open_database))
    for text in "ab":
        await jms_app.template.convert_and_send("r", text)
    await jms_app.drained("r", raise_errors=True)
    await jms_app.stop()
    assert LOG[0] == "1 opened"
    assert LOG[-1].endswith(" closed")
    assert "".join(entry for entry in LOG if " " not in entry) == "ab"


async def test_who_handles_no_message_gets_none(jms_app: JmsTestApp) -> None:
    @jms_listener("r", id="r")
    async def on_text(text: str, repository: Given) -> None: ...

    @on_startup
    def begin(database: Annotated[Database, Provide["database"]]) -> None: ...

    with pytest.raises(ConfigurationException, match="database is opened for each message"):
        await jms_app.start(on_text, begin, container=services_of(open_database))
