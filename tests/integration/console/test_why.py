"""Why nothing is delivered: named by the command, on the pages and as a warning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias

import pytest
from anyio.to_thread import run_sync

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSSecurityException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.testing.clock import VirtualClock
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.security import simple, user
from tests.kit.processes.command_line import pyjms
from tests.kit.waiting import until
from tests.kit.web.console import Console, console_of

ORDERS = Queue("orders")
PAGE = 10


class Site:
    """A broker with a web server, and clients of it."""

    def __init__(self, service: BrokerService, stack: AsyncExitStack) -> None:
        self.service = service
        self._stack = stack

    async def connection(
        self, client_id: str, options: str = "", *, started: bool = True, login: str | None = None
    ) -> ActiveMQConnection:
        factory = ConnectionFactory(
            f"{self.service.vm_uri}?create=false{options}",
            user_name=login,
            password=None if login is None else "secret",
        )
        factory.options.client_id = client_id
        connection = await factory.create_connection()
        self._stack.push_async_callback(connection.close)
        if started:
            await connection.start()
        return connection

    async def send(self, *carriers: str, group: str | None = None, login: str | None = None) -> str:
        """Send messages; return the id of the last one."""
        connection = await self.connection("shop", login=login)
        session = await connection.create_session()
        producer = await session.create_producer(ORDERS)
        for carrier in carriers:
            message = TextMessage("a body that nobody should see")
            message.properties["carrier"] = carrier
            message.group_id = group
            await producer.send(message)
        await connection.close()
        assert message.message_id is not None
        return message.message_id

    async def consume(
        self, client_id: str, prefetch: int = 1000, selector: str | None = None, query: str = ""
    ) -> Callable[[], Awaitable[Message | None]]:
        """Open a consumer that does not acknowledge; return its function to receive."""
        connection = await self.connection(
            client_id, f"&jms.prefetchPolicy.queuePrefetch={prefetch}"
        )
        session = await connection.create_session(False, AcknowledgeMode.CLIENT)
        consumer = await session.create_consumer(Queue(f"orders{query}"), selector)
        return consumer.receive

    def consumer(self, client_id: str) -> str:
        """Return the id of a client's consumer of a queue."""
        (found,) = (
            str(each.consumer_id)
            for each in self.service.region_broker.subscriptions.all()
            if each.context.client_id == client_id and each.requested.is_queue
        )
        return found


Set: TypeAlias = Callable[[Site], Awaitable[None]]


async def selects_nothing(site: Site) -> None:
    await site.consume("ups", selector="carrier = 'ups'")
    await site.send("dhl", "dhl")


async def behind_the_page(site: Site) -> None:
    await site.send(*("dhl",) * (PAGE + 5), "ups")
    await site.consume("ups", selector="carrier = 'ups'")


async def exclusive(site: Site) -> None:
    await site.consume("first", 1, query="?consumer.exclusive=true")
    await site.consume("second", 1)
    await site.send("dhl", "dhl")


async def grouped(site: Site) -> None:
    receive = await site.consume("owner", 1)
    await site.send("dhl", group="g")
    await receive()
    await site.consume("other", 1)
    await site.send("dhl", "dhl", group="g")


async def paused(site: Site) -> None:
    await site.consume("any")
    name = site.service.management.context.names.destination(ORDERS)
    await site.service.management.invoke(name, "pause")
    await site.send("dhl")


async def full(site: Site) -> None:
    await site.send("dhl")
    site.service.system_usage.memory.change_limit(100)


async def refused(site: Site) -> None:
    await site.send("dhl", login="sender")
    connection = await site.connection("reader", login="stranger")
    session = await connection.create_session()
    with pytest.raises(JMSSecurityException):
        await session.create_consumer(ORDERS)


async def nobody(site: Site) -> None:
    await site.send("dhl")


async def in_flight(site: Site) -> None:
    await site.consume("lazy")
    await site.send("dhl")


async def unheard(site: Site) -> None:
    connection = await site.connection("reader")
    await (await connection.create_session()).create_consumer(Queue("order"))
    await site.send("dhl")


async def unbridged(site: Site) -> None:
    await site.send("dhl")
    connector = site.service.networks.connectors[0]
    await until(lambda: bool(connector.missing_bridges))


def _authorized(name: str) -> BrokerService:
    entry = {"destination": "orders", "read": "staff", "write": "senders", "admin": "senders"}
    free = {
        "destination": "topic://ActiveMQ.Advisory.>",
        "read": "senders,none",
        "write": "senders,none",
    }
    rights = AuthorizationSettings.model_validate(
        {"entries": [entry, {**free, "admin": "senders,none"}]}
    )
    logins = simple(user("sender", "senders"), user("stranger", "none"), user("operator", "admins"))
    return BrokerService(
        name, persistent=False, plugins=[logins, rights], web=WebConfiguration(port=0)
    )


def _made(name: str, situation: Set) -> BrokerService:
    if situation is refused:
        service = _authorized(name)
    else:
        policies = PolicyMap([PolicyEntry(destination=ORDERS, max_page_size=PAGE)])
        service = BrokerService(
            name, persistent=False, policies=policies, web=WebConfiguration(port=0)
        )
    if situation is unbridged:
        service.add_network_connector(
            "static:(tcp://127.0.0.1:1)", NetworkConnectorAttributes(name="to-plant")
        )
    return service


@asynccontextmanager
async def site_with(situation: Set) -> AsyncIterator[tuple[Site, Console]]:
    service = _made("why", situation)
    async with service, console_of(service) as console, AsyncExitStack() as stack:
        if situation is refused:
            console.client.auth = ("operator", "secret")
        site = Site(service, stack)
        await situation(site)
        yield site, console


SITUATIONS = [
    (selects_nothing, "No consumer wants the messages", "wants carrier = 'ups'; none of the 2"),
    (behind_the_page, "Wanted messages behind unwanted ones", "wants waiting message number 16"),
    (exclusive, "An exclusive consumer gets everything", "1 other consumer gets none"),
    (grouped, "Message groups belong to another consumer", "of message group 'g' belong"),
    (paused, "Paused queue with messages", "nothing is dispatched"),
    (full, "Memory", "full"),
    (refused, "A right is missing", "user stranger was refused to read from it once"),
    (unheard, "Nobody listens", "and no consumer (did you mean order, which has 1 consumer?)"),
    (unbridged, "No bridge", "to tcp://127.0.0.1:1"),
]


@pytest.mark.fact("activemq-edges JX4")
@pytest.mark.parametrize(
    ("situation", "title", "text"), SITUATIONS, ids=[each[0].__name__ for each in SITUATIONS]
)
async def test_each_situation_is_named_by_command_page_and_warning(
    situation: Set, title: str, text: str
) -> None:
    async with site_with(situation) as (site, console):
        url = str(site.service.website.url)
        login = ("--user", "operator") if situation is refused else ()
        said = await run_sync(
            lambda: pyjms("broker", "why", "orders", "--url", url, *login, PYJMS_PASSWORD="secret")
        )
        assert said.exit_code == 1, said.output
        assert title in said.stdout
        assert text in said.stdout
        for page in ("queue", "why", "warnings"):
            found = await console.text(page, **({} if page == "warnings" else {"name": "orders"}))
            assert title in found, page
        assert "nobody should see" not in said.output


async def test_a_consumer_that_was_never_started_is_named_with_both_reasons() -> None:
    async with site_with(paused) as (site, console):
        connection = await site.connection("lazy", started=False)
        session = await connection.create_session()
        await session.create_consumer(Queue("invoices"))
        lazy = site.consumer("lazy")
        sender = await site.connection("sender")
        producer = await (await sender.create_session()).create_producer(Queue("invoices"))
        await producer.send(TextMessage("x"))
        text = await console.text("why", name=lazy)
        assert "A consumer does not acknowledge" in text
        assert "its connection was never started" in text
        assert "call connection.start()" in text


async def test_messages_in_flight_are_told_before_they_are_late() -> None:
    async with (
        VirtualClock() as clock,
        BrokerService("why", persistent=False) as service,
        console_of(service) as console,
        AsyncExitStack() as stack,
    ):
        site = Site(service, stack)
        await site.consume("lazy")
        await site.send("dhl", "ups")
        await clock.advance(23)
        for name in ("orders", site.consumer("lazy")):
            text = await console.text("why", name=name)
            assert "Nothing keeps messages" not in text
        queue = await console.text("why", name="orders")
        assert "2 messages are in flight at consumer" in queue
        assert "the oldest dispatched 23 s ago, and not acknowledged yet" in queue
        assert "in flight at" not in await console.text("queue", name="orders")
        await clock.advance(8)
        assert "has acknowledged nothing" in await console.text("why", name="orders")


async def test_messages_in_flight_are_no_failure() -> None:
    async with site_with(in_flight) as (site, _):
        url = str(site.service.website.url)
        said = await run_sync(lambda: pyjms("broker", "why", "orders", "--url", url))
        assert said.exit_code == 0, said.output
        assert "- With a consumer: 1 message is in flight at consumer" in said.stdout


@pytest.mark.fact("activemq-edges JX4")
async def test_an_empty_queue_names_the_similar_one_that_has_its_messages() -> None:
    async with site_with(unheard) as (site, console):
        text = await console.text("why", name="order")
        assert "it is empty, and orders has 1 message and no consumer" in text
        url = str(site.service.website.url)
        said = await run_sync(lambda: pyjms("broker", "why", "order", "--url", url))
        assert said.exit_code == 0, said.output


@pytest.mark.parametrize("name", ["orders2", "DLQ.orders", "orders.in", "invoices"])
async def test_a_name_that_is_meant_to_differ_is_not_suggested(name: str) -> None:
    async with site_with(nobody) as (site, console):
        connection = await site.connection("reader")
        await (await connection.create_session()).create_consumer(Queue(name))
        assert "did you mean" not in await console.text("why", name="orders")
        assert "did you mean" not in await console.text("why", name=name)


@pytest.mark.fact("activemq-edges 11.1")
async def test_another_consumer_with_everything_in_its_prefetch_is_named() -> None:
    async with site_with(paused) as (site, console):
        await site.consume("greedy", query="2")
        connection = await site.connection("shop")
        producer = await (await connection.create_session()).create_producer(Queue("orders2"))
        for _ in range(3):
            await producer.send(TextMessage("x"))
        await site.consume("idle", query="2")
        idle = site.consumer("idle")
        text = await console.text("why", name=idle)
        assert "Another consumer&#39;s prefetch holds the messages" in text
        assert "of client greedy holds 3 in its prefetch of 1,000" in text


async def test_a_message_names_the_consumer_that_has_it() -> None:
    async with site_with(paused) as (site, console):
        name = site.service.management.context.names.destination(ORDERS)
        await site.service.management.invoke(name, "resume")
        await until(lambda: site.service.management.get(name, "InFlightCount") == 1)
        (item,) = await console_messages(site)
        text = await console.text("message", queue="orders", id=item)
        assert "Why it is not delivered" in text
        assert "it was dispatched to consumer" in text
        assert "of client any" in text
        assert "With a consumer" in await console.text("why", name=item)


async def console_messages(site: Site) -> list[str]:
    queue = site.service.region_broker.destinations()[ORDERS]
    return [str(each.message_id) for each in queue.messages()]


async def test_an_unknown_name_says_what_can_be_named() -> None:
    async with site_with(paused) as (_, console):
        response = await console.get("why", name="ID:nobody:1:1:1:1")
        assert response.status_code == 404
        assert "There is no queue, consumer or message" in response.text


async def test_a_consumer_that_works_is_not_slow_and_one_that_stops_is_a_warning() -> None:
    async with (
        VirtualClock() as clock,
        BrokerService("why", persistent=False) as service,
        console_of(service) as console,
        AsyncExitStack() as stack,
    ):
        site = Site(service, stack)
        receive = await site.consume("worker", 2)
        await site.send(*("dhl",) * 200)
        for _ in range(10):
            message = await receive()
            assert isinstance(message, TextMessage)
            await clock.advance(20)
            await message.acknowledge()
        await clock.settle()
        assert "does not acknowledge" not in await console.text("warnings")
        slow = '<span class="tag serious">slow</span>'
        assert slow not in await console.text("queue", name="orders")
        assert "it is a matter of speed" in await console.text("queue", name="orders")
        await clock.advance(31)
        assert slow in await console.text("queue", name="orders")
        text = await console.text("warnings")
        assert "A consumer does not acknowledge" in text
        assert "the last was dispatched 51 s ago, and it has made room for no other" in text


@pytest.mark.fact("activemq-edges 11.11")
async def test_an_offline_subscription_tells_the_age_of_its_oldest_message() -> None:
    async with (
        VirtualClock() as clock,
        BrokerService("why", persistent=False) as service,
        console_of(service) as console,
        AsyncExitStack() as stack,
    ):
        site = Site(service, stack)
        connection = await site.connection("archive")
        session = await connection.create_session()
        await (await session.create_durable_subscriber(Topic("news"), "nightly")).close()
        producer = await session.create_producer(Topic("news"))
        await producer.send(TextMessage("x"))
        await clock.advance(65)
        assert ">1 min 5 s</a>" in await console.text("subscribers")
        text = await console.text("why", name="archive:nightly")
        assert "Durable subscription nightly of client archive" in text
        assert "Nobody listens" in text
        assert "it has 1 message and no consumer" in text
