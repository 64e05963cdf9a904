"""Keys of broker.yaml with two values, and what the broker does with each of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from pyjms.errors import InvalidSelectorException, JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.types import Long
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ActiveMQTextMessage, ConsumerControl
from pyjms.wire.openwire.primitives import decode_text, encode_map
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

Q = Queue("q")
Started = Callable[..., AbstractAsyncContextManager[tuple[EmbeddedTestBroker, RawClient]]]


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.fixture
def started(tmp_path: Path, raw_client: type[RawClient]) -> Started:
    """Starts a broker with these keys, and yields it with a client."""

    @asynccontextmanager
    async def start(
        *keys: str, persistent: str = "false"
    ) -> AsyncIterator[tuple[EmbeddedTestBroker, RawClient]]:
        file = tmp_path / "broker.yaml"
        text = "\n".join([f"persistent: {persistent}", *keys])
        if "data_directory" not in text:
            text += f"\ndata_directory: {tmp_path / 'data'}"
        file.write_text(text, encoding="utf-8")
        service = BrokerService.from_settings(load_broker_settings(file, environ={}))
        async with EmbeddedTestBroker(service) as broker:
            client = raw_client(create_transport(broker.url))
            await client.open()
            yield broker, client
            await client.close()

    return start


def count(broker: EmbeddedTestBroker, queue: str = "q") -> int:
    return broker.queue_statistics(queue).messages


async def send_with(
    client: RawClient, where: Destination, text: str = "x", **properties: object
) -> ActiveMQTextMessage:
    message = client.text(await client.producer(), where, text)
    message.marshalled_properties = encode_map(properties)
    await client.request(message)
    return message


@pytest.mark.parametrize("wanted", [True, False])
async def test_advisories(started: Started, wanted: bool) -> None:
    async with started(f"advisory_support: {str(wanted).lower()}") as (_, client):
        await client.consumer(Topic("ActiveMQ.Advisory.Queue"))
        await client.destination(Q)
        if wanted:
            assert (await client.message()).data_structure is not None
        await client.nothing_dispatched()


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_user_is_in_the_message(started: Started, wanted: bool) -> None:
    async with started(f"populate_jmsx_user_id: {str(wanted).lower()}") as (_, client):
        await client.consumer(Q)
        await client.send(Q, "x")
        assert (await client.message()).user_id == ("joe" if wanted else None)


@pytest.mark.fact("activemq-broker T24")
@pytest.mark.parametrize("wanted", [True, False])
async def test_messages_of_active_durable_subscriptions_expire(
    started: Started, clock: VirtualClock, wanted: bool
) -> None:
    key = f"enable_message_expiration_on_active_durable_subs: {str(wanted).lower()}"
    async with started(
        key, "policies: [{destination: 'topic://>', expire_messages_period: 1s}]"
    ) as (
        broker,
        client,
    ):
        offline = await client.consumer(Topic("t"), subscription_name="offline")
        await client.remove(offline)
        await client.consumer(Topic("t"), subscription_name="active", prefetch_size=1)
        producer = await client.producer()
        for text, expiration in (("first", 0), ("expires", clock.time_ms() + 500), ("last", 0)):
            message = client.text(producer, Topic("t"), text)
            message.expiration = expiration
            await client.request(message)
        await clock.advance(2)
        durables = broker.service.region_broker.subscriptions.durable_subscriptions()
        waiting = {each.key.subscription_name: each.pending_count for each in durables}
        assert waiting == {"offline": 2, "active": 1 if wanted else 2}
        first = await client.dispatched()
        await client.ack(first)
        assert decode_text((await client.message()).content or b"") == "last"


@pytest.mark.fact("activemq-broker T22")
@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("10s", "1s"), ["back", "used"]),
        (("10s", "30s"), ["back", "gone", "lost", "used"]),  # nobody has looked yet
        (("0", "1s"), ["back", "gone", "lost", "used"]),
        (("10s", "0"), ["back", "gone", "lost", "used"]),
        (("25s", "1s"), ["back", "gone", "lost", "used"]),
    ],
)
async def test_offline_durable_subscriptions_are_removed(
    started: Started, clock: VirtualClock, keys: tuple[str, str], left: list[str]
) -> None:
    timeout, schedule = keys
    async with started(
        f"offline_durable_subscriber_timeout: {timeout}",
        f"offline_durable_subscriber_task_schedule: {schedule}",
    ) as (broker, client):
        await client.consumer(Topic("t"), subscription_name="used")
        for name in ("lost", "gone", "back"):
            await client.remove(await client.consumer(Topic("t"), subscription_name=name))
        await client.send(Topic("t"), "x")
        for _ in range(2):
            await clock.advance(8)
            await client.remove(await client.consumer(Topic("t"), subscription_name="back"))
        durables = broker.service.region_broker.subscriptions.durable_subscriptions()
        assert sorted(each.key.subscription_name for each in durables) == left


@pytest.mark.parametrize("persistent", ["true", "false"])
async def test_messages_survive_a_restart_of_a_persistent_broker(
    started: Started, tmp_path: Path, persistent: str
) -> None:
    keys = (f"data_directory: {tmp_path / 'there'}", "broker_name: mine")
    async with started(*keys, persistent=persistent) as (_, client):
        await client.send(Q, "x")
    assert (tmp_path / "there" / "mine").exists() is (persistent == "true")
    async with started(*keys, persistent=persistent) as (broker, client):
        await client.destination(Q)
        assert count(broker) == (1 if persistent == "true" else 0)


@pytest.mark.parametrize("wanted", [True, False])
async def test_delays_need_the_scheduler(started: Started, wanted: bool) -> None:
    async with started(f"scheduler_support: {str(wanted).lower()}") as (broker, client):
        await client.destination(Q)
        await send_with(client, Q, AMQ_SCHEDULED_DELAY=Long(3_600_000))
        assert count(broker) == (0 if wanted else 1)


async def test_the_jobs_have_their_directory(started: Started, tmp_path: Path) -> None:
    there = tmp_path / "jobs"
    keys = ("scheduler_support: true", f"scheduler_directory: {there}")
    async with started(*keys, persistent="true"):
        assert list(there.iterdir())


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        ("memory_limit: 1b, send_fail_if_no_space: true", "Memory"),
        ("memory_limit: 1b, send_fail_if_no_space_after_timeout: 10ms", "Memory"),
        ("memory_limit: 1gb, send_fail_if_no_space: true", None),
    ],
)
async def test_a_full_broker_refuses_messages(
    started: Started, usage: str, reason: str | None
) -> None:
    async with started(f"system_usage: {{{usage}}}") as (broker, client):
        await client.send(Q, "fills it")
        if reason is None:
            await client.send(Q, "x")
        else:
            with pytest.raises(JMSException, match=reason):
                await client.send(Q, "x")
        assert count(broker) == (1 if reason else 2)


@pytest.mark.parametrize("stolen", [True, False])
async def test_a_client_id_may_be_taken_over(
    started: Started, raw_client: type[RawClient], stolen: bool
) -> None:
    connector = f"{{uri: 'tcp://127.0.0.1:0', allow_link_stealing: {str(stolen).lower()}}}"
    async with started(f"connectors: [{connector}]") as (broker, _):
        first, second = (
            raw_client(create_transport(broker.service.connectors[0].connect_uri)) for _ in "12"
        )
        await first.open("same")
        if stolen:
            await second.open("same")
            await second.close()
            await first.cut()
        else:
            with pytest.raises(JMSException, match="already connected"):
                await second.open("same")
            await second.cut()
            await first.close()


@pytest.mark.parametrize("body", [True, False])
async def test_advisories_of_messages_have_their_body(started: Started, body: bool) -> None:
    policy = "{advisory_for_delivery: true, include_body_for_advisory: " + str(body).lower() + "}"
    async with started(f"policies: [{policy}]") as (_, client):
        await client.consumer(Topic("ActiveMQ.Advisory.MessageDelivered.Queue.q"))
        await client.send(Q, "x")
        original = (await client.message()).data_structure
        assert isinstance(original, ActiveMQTextMessage)
        assert (original.content is not None) is body


@pytest.mark.parametrize("make", [Queue, Topic])
async def test_composites_forward_to_what_their_selectors_take(
    started: Started, make: Callable[[str], Destination]
) -> None:
    def composite(name: str, more: str = "") -> str:
        red = "{destination: red, selector: \"colour = 'red'\"}"
        forward_to = f"[{red}, {{destination: never, selector: 'a = 1'}}]"
        kind = f"composite_{make.__name__.lower()}"
        return f"{{type: {kind}, name: {name}, forward_to: {forward_to}{more}}}"

    text = ", ".join(
        [
            composite("strict"),
            composite("also", ", forward_only: false"),
            composite("keeps", ", send_when_not_matched: true"),
        ]
    )
    async with started(f"virtual_destinations: [{text}]") as (broker, client):
        for name in ("strict", "also", "keeps"):
            await client.consumer(make(name))
            for colour in ("red", "blue"):
                await send_with(client, make(name), colour, colour=colour)
        assert (count(broker, "red"), count(broker, "never")) == (3, 0)
        found = [(await client.message()).destination for _ in range(3)]
        await client.nothing_dispatched()
        assert found == [make("also"), make("also"), make("keeps")]


@pytest.mark.parametrize("key", ["maximum_selector_steps", "maximum_selector_characters"])
@pytest.mark.parametrize("limit", [1, 1_000_000])
async def test_a_selector_that_costs_too_much_takes_nothing(
    started: Started, key: str, limit: int
) -> None:
    async with started(f"{key}: {limit}") as (_, client):
        await client.consumer(Q, selector="word LIKE '%a%b%c%'")
        await send_with(client, Q, word="xxaxxbxxc" * 10)
        if limit > 1:
            await client.message()
        await client.nothing_dispatched()


@pytest.mark.parametrize("depth", [2, 5])
async def test_a_selector_that_nests_too_deeply_is_refused(started: Started, depth: int) -> None:
    async with started(f"maximum_selector_depth: {depth}") as (_, client):
        with nullcontext() if depth > 2 else pytest.raises(InvalidSelectorException, match="2"):
            await client.consumer(Q, selector="(a + 1) * 2 = 4")


@pytest.mark.parametrize("rate", [0, 20_000])
async def test_costly_selectors_together_are_closed(started: Started, rate: int) -> None:
    async with started(f"maximum_selector_steps_per_second: {rate}") as (_, client):
        for _ in range(10):
            await client.consumer(Topic("t"), selector="REGEX('(a|aa|aaa)*b', word)")
        await send_with(client, Topic("t"), word="a" * 400 + "b")
        if rate:
            control = await client.heard(ConsumerControl)
            assert isinstance(control, ConsumerControl)
            assert control.close
        else:
            for _ in range(10):
                await client.message()


async def test_a_connector_has_its_name_in_logs(
    started: Started, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with started("connectors: [{name: door, uri: 'tcp://127.0.0.1:0'}]"):
        assert "Connector door started" in caplog.text


@pytest.mark.fact("activemq-broker T28")
@pytest.mark.parametrize("value", ["true", "false"])
async def test_durable_consumers_may_be_refused(started: Started, value: str) -> None:
    async with started(f"reject_durable_consumers: {value}") as (_, client):
        await client.consumer(Topic("t"))
        subscription = client.consumer(Topic("t"), client_id="me", subscription_name="s")
        if value == "true":
            with pytest.raises(JMSException, match="Durable Consumers are not allowed"):
                await subscription
        else:
            await subscription


@pytest.mark.fact("activemq-broker T19")
@pytest.mark.parametrize(("value", "expected"), [("true", ["1", "2"]), ("false", ["1"])])
async def test_messages_of_offline_subscriptions(
    started: Started, value: str, expected: list[str]
) -> None:
    keys = {"client_id": "me", "subscription_name": "s"}
    async with started(f"keep_durable_subs_active: {value}", persistent="true") as (_, client):
        await client.remove(await client.consumer(Topic("t"), **keys))
        await client.send(Topic("t"), "1")
        message = client.text(await client.producer(), Topic("t"), "2")
        message.persistent = False
        await client.request(message)
        await client.consumer(Topic("t"), **keys)
        got = [decode_text((await client.message()).content or b"") for _ in expected]
        await client.nothing_dispatched()
        assert got == expected


@pytest.mark.fact("activemq-edges U8")
@pytest.mark.parametrize("kind", ["Producers", "Consumers"])
@pytest.mark.parametrize("where", ["uri", "key"])
async def test_the_number_of_a_connections_clients_is_limited(
    started: Started, kind: str, where: str
) -> None:
    """maximum_producers_allowed_per_connection, maximum_consumers_allowed_per_connection."""
    option = f"?maximum{kind}AllowedPerConnection=1" if where == "uri" else ""
    key = f", maximum_{kind.lower()}_allowed_per_connection: 1" if where == "key" else ""
    uri = f"tcp://127.0.0.1:0{option}"
    async with started(f'connectors: [{{uri: "{uri}"{key}}}]') as (broker, _):
        client = RawClient(create_transport(broker.service.connectors[0].connect_uri))
        await client.open()
        add = client.producer if kind == "Producers" else client.consumer
        await add(Q)
        with pytest.raises(JMSException, match="at maximum limit: 1"):
            await add(Q)
        await client.close()


@pytest.mark.fact("activemq-edges U8")
@pytest.mark.parametrize("value", ["true", "false"])
async def test_the_monitor_of_blocked_clients(started: Started, value: str) -> None:
    connector = f'uri: "tcp://127.0.0.1:0", enable_status_monitor: {value}'
    async with started(f"connectors: [{{{connector}}}]") as (broker, _):
        assert broker.service.connectors[0].enable_status_monitor is (value == "true")


@pytest.mark.fact("activemq-broker M20")
@pytest.mark.parametrize(
    ("split", "expected"), [("true", (70_000, 20_000)), ("false", (100_000, 0))]
)
async def test_memory_divided_between_producers_and_consumers(
    started: Started, split: str, expected: tuple[int, int]
) -> None:
    keys = (
        f"split_system_usage_for_producers_consumers: {split}",
        "producer_system_usage_portion: 70",
        "consumer_system_usage_portion: 20",
        "system_usage: {memory_limit: 100000}",
    )
    async with started(*keys) as (broker, _):
        usage = broker.service.system_usage
        assert (usage.memory.limit, usage.consumer_limit) == expected
