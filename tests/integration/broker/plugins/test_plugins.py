"""ActiveMQ's broker plug-ins, each in a whole broker."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import AckType, ActiveMQMessage, BrokerId, TransactionType
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms_broker.plugins import event_logging
from pyjms_broker.plugins.discarding_dlq import DiscardingDLQBrokerPlugin
from pyjms_broker.plugins.event_logging import LoggingBrokerPlugin
from pyjms_broker.plugins.message_headers import (
    ForcePersistencyModeBrokerPlugin,
    TimeStampingBrokerPlugin,
    TraceBrokerPathPlugin,
)
from pyjms_broker.plugins.path_separator import DestinationPathSeparatorPlugin
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.eviction import ConstantPendingMessageLimitStrategy
from pyjms_broker.settings import load_broker_settings
from tests.kit.clients.raw import BrokerWith, RawClient

Q, DLQ = Queue("q"), Queue("ActiveMQ.DLQ")
LOGGER = event_logging.__name__


@pytest.fixture
async def now() -> AsyncIterator[int]:
    """The time of the test, in milliseconds: it stands still."""
    async with VirtualClock(autojump=False):
        yield _clock.time_ms()


async def sent(client: RawClient, **fields: Any) -> ActiveMQMessage:
    """Send a message with these fields and return it as its consumer gets it."""
    message = client.text(await client.producer(), Q, "x")
    for name, value in fields.items():
        setattr(message, name, value)
    await client.request(message)
    return await client.message()


async def poison(client: RawClient, where: Queue | Topic, **fields: Any) -> None:
    consumer = await client.consumer(where)
    message = client.text(await client.producer(), where, "bad")
    for name, value in fields.items():
        setattr(message, name, value)
    await client.request(message)
    await client.ack(await client.dispatched(), AckType.POISON)
    await client.remove(consumer)


@pytest.mark.fact("activemq-broker 1.1/timeStampingBrokerPlugin")
@pytest.mark.parametrize(
    ("options", "age", "ttl", "expected"),
    [
        ({}, 90_000, 60_000, (0, 60_000)),
        ({}, 90_000, None, (0, None)),
        ({}, -90_000, 60_000, (0, 60_000)),
        ({"zero_expiration_override": 5.0}, 90_000, None, (0, 5_000)),
        ({"zero_expiration_override": 5.0}, 90_000, 60_000, (0, 60_000)),
        ({"ttl_ceiling": 20.0}, 90_000, 60_000, (0, 20_000)),
        ({"ttl_ceiling": 20.0}, 90_000, 10_000, (0, 10_000)),
        ({"ttl_ceiling": 20.0, "zero_expiration_override": 30.0}, 90_000, None, (0, 20_000)),
        ({"future_only": True}, 10_000, 60_000, (0, 60_000)),
        ({"future_only": True}, -10_000, 60_000, (10_000, 60_000)),
    ],
)
async def test_messages_get_the_brokers_time_and_keep_their_time_to_live(
    now: int,
    broker_with: BrokerWith,
    options: dict[str, Any],
    age: int,
    ttl: int | None,
    expected: tuple[int, int | None],
) -> None:
    async with broker_with(plugins=[TimeStampingBrokerPlugin(**options)]) as (_, client):
        await client.consumer(Q)
        said = now - age
        got = await sent(client, timestamp=said, expiration=0 if ttl is None else said + ttl)
        timestamp, lives = expected
        assert got.timestamp - now == timestamp
        assert got.expiration == (0 if lives is None else now + timestamp + lives)


@pytest.mark.fact("activemq-broker 1.1/timeStampingBrokerPlugin")
@pytest.mark.parametrize(
    ("fields", "network", "stamped"),
    [
        ({"timestamp": 0}, True, False),
        ({"timestamp": 7}, False, True),
        ({"timestamp": 7, "broker_path": [BrokerId("other")]}, False, False),
        ({"timestamp": 7, "broker_path": [BrokerId("other")]}, True, True),
    ],
)
async def test_messages_without_a_time_and_of_other_brokers_may_keep_theirs(
    now: int, broker_with: BrokerWith, fields: dict[str, Any], network: bool, stamped: bool
) -> None:
    plugin = TimeStampingBrokerPlugin(process_network_messages=network)
    async with broker_with(plugins=[plugin]) as (_, client):
        await client.consumer(Q)
        got = await sent(client, **fields)
        assert got.timestamp == (now if stamped else fields["timestamp"])


@pytest.mark.fact("activemq-broker 1.1/timeStampingBrokerPlugin")
async def test_dead_letters_keep_their_time(now: int, broker_with: BrokerWith) -> None:
    plugin = TimeStampingBrokerPlugin(zero_expiration_override=60)
    async with broker_with(plugins=[plugin]) as (_, client):
        await poison(client, Q)
        await client.consumer(DLQ)
        assert (await client.message()).expiration == 0


@pytest.mark.fact("activemq-broker 1.1/forcePersistencyModeBrokerPlugin")
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("forced", [True, False, None])
async def test_the_delivery_mode_is_forced(
    broker_with: BrokerWith, said: bool, forced: bool | None
) -> None:
    options = {} if forced is None else {"persistence_flag": forced}
    async with broker_with(plugins=[ForcePersistencyModeBrokerPlugin(**options)]) as (_, client):
        await client.consumer(Q)
        assert (await sent(client, persistent=said)).persistent is bool(forced)


@pytest.mark.fact("activemq-broker 1.1/destinationPathSeparatorPlugin")
@pytest.mark.parametrize(
    ("separator", "consumed", "sent_to", "arrives"),
    [
        ("/", "a/b", "a.b", "a.b"),
        ("/", "a.b", "a/b", "a.b"),
        ("/", "a/*/c", "a/b/c", "a.b.c"),
        ("/", "a/>", "a.b/c", "a.b.c"),
        ("::", "a::b", "a.b", "a.b"),
        ("/", "x,a/b", "a.b", "a.b"),
        ("/", "x,queue://a/b", "a.b", "a.b"),
        ("/", "a.b", "y,queue://a/b", "a.b"),
    ],
)
async def test_another_separator_means_a_dot(
    broker_with: BrokerWith, separator: str, consumed: str, sent_to: str, arrives: str
) -> None:
    plugin = DestinationPathSeparatorPlugin(path_separator=separator)
    async with broker_with(plugins=[plugin]) as (broker, client):
        consumer = await client.consumer(Queue(consumed))
        producer = await client.producer(Queue(sent_to))
        await client.request(client.text(producer, Queue(sent_to), "x"))
        dispatch = await client.dispatched()
        assert dispatch.message is not None
        assert dispatch.message.destination == Queue(arrives)
        # the client may acknowledge by the name that it knows
        await client.ack(dispatch, destination=Queue(sent_to))
        assert broker.queue_statistics(arrives).messages == 0
        await client.remove(consumer)
        await client.remove(producer)
        assert not [
            name
            for name in broker.service.region_broker.destinations()
            if separator in name.physical_name
        ]


@pytest.mark.fact("activemq-broker 1.1/destinationPathSeparatorPlugin")
async def test_a_client_creates_and_removes_by_the_other_separator(
    broker_with: BrokerWith,
) -> None:
    async with broker_with(plugins=[DestinationPathSeparatorPlugin()]) as (broker, client):
        await client.destination(Topic("a/b"))
        assert Topic("a.b") in broker.service.region_broker.destinations()
        await client.destination(Topic("a/b"), operation=1)
        assert Topic("a.b") not in broker.service.region_broker.destinations()


async def test_temporary_destinations_keep_their_names(broker_with: BrokerWith) -> None:
    plugin = DestinationPathSeparatorPlugin(path_separator=":")
    async with broker_with(plugins=[plugin]) as (_, client):
        where = TemporaryQueue(f"{client.name}:1")
        await client.destination(where)
        await client.consumer(where)
        assert (await sent(client, destination=where)).destination == where


@pytest.mark.fact("activemq-broker 1.1/traceBrokerPathPlugin")
@pytest.mark.parametrize(
    ("options", "before", "name", "prefix"),
    [
        ({}, {}, "BrokerPath", ""),
        ({}, {"BrokerPath": "first", "other": 1}, "BrokerPath", "first,"),
        ({"stamp_property": "way"}, {"BrokerPath": "first"}, "way", ""),
    ],
)
async def test_a_property_lists_the_brokers(
    broker_with: BrokerWith,
    options: dict[str, Any],
    before: dict[str, Any],
    name: str,
    prefix: str,
) -> None:
    async with broker_with(plugins=[TraceBrokerPathPlugin(**options)]) as (broker, client):
        await client.consumer(Q)
        got = await sent(client, marshalled_properties=encode_map(before) if before else None)
        assert got.marshalled_properties is not None
        way = prefix + broker.service.broker_name
        assert decode_map(got.marshalled_properties) == {**before, name: way}


@pytest.mark.fact("activemq-broker 1.1/traceBrokerPathPlugin")
async def test_a_dead_letter_names_its_broker_once(broker_with: BrokerWith) -> None:
    async with broker_with(plugins=[TraceBrokerPathPlugin()]) as (broker, client):
        await poison(client, Q)
        await client.consumer(DLQ)
        marshalled = (await client.message()).marshalled_properties
        assert marshalled is not None
        assert decode_map(marshalled)["BrokerPath"] == broker.service.broker_name


async def test_properties_that_cannot_be_decoded_are_left_alone(
    broker_with: BrokerWith, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_with(plugins=[TraceBrokerPathPlugin()]) as (_, client):
        await client.consumer(Q)
        got = await sent(client, marshalled_properties=b"\x00\x00\x00\x01broken")
        assert got.marshalled_properties == b"\x00\x00\x00\x01broken"
    assert "gets no property BrokerPath" in caplog.text


@pytest.mark.fact("activemq-broker 1.1/discardingDLQBrokerPlugin")
@pytest.mark.parametrize(
    ("options", "name", "dead"),
    [
        ({}, "q", 0),
        ({"drop_all": False}, "q", 1),
        ({"drop_all": False, "drop_only": r"other\..* q"}, "q", 0),
        ({"drop_all": False, "drop_only": r"other\..* q"}, "other.x", 0),
        ({"drop_all": False, "drop_only": r"other\..* q"}, "q2", 1),
    ],
)
async def test_messages_are_discarded_instead_of_dead_lettered(
    broker_with: BrokerWith, options: dict[str, Any], name: str, dead: int
) -> None:
    async with broker_with(plugins=[DiscardingDLQBrokerPlugin(**options)]) as (broker, client):
        await client.destination(DLQ)
        await poison(client, Queue(name))
        assert broker.queue_statistics(name).messages == 0
        assert broker.queue_statistics(DLQ.physical_name).messages == dead


@pytest.mark.fact("activemq-broker 1.1/discardingDLQBrokerPlugin")
@pytest.mark.parametrize("kind", [TemporaryQueue, TemporaryTopic])
@pytest.mark.parametrize(
    ("option", "of_kind"),
    [("drop_temporary_queues", TemporaryQueue), ("drop_temporary_topics", TemporaryTopic)],
)
async def test_messages_of_temporary_destinations_may_be_dead_lettered(
    broker_with: BrokerWith, kind: type[Any], option: str, of_kind: type[Any]
) -> None:
    options: dict[str, Any] = {"drop_all": False, option: False}
    plugin = DiscardingDLQBrokerPlugin(**options)
    limit = ConstantPendingMessageLimitStrategy(limit=1)
    policies = PolicyMap([PolicyEntry(pending_message_limit_strategy=limit)])
    async with broker_with(plugins=[plugin], policies=policies) as (broker, client):
        await client.destination(DLQ)
        where = kind(f"{client.name}:1")
        await client.destination(where)
        if kind is TemporaryQueue:
            await poison(client, where)
        else:  # one is dispatched, one waits, one is discarded
            await client.consumer(where, prefetch_size=1)
            await client.send(where, "1", "2", "3")
        dead = broker.queue_statistics(DLQ.physical_name).messages
        assert dead == (1 if kind is of_kind else 0)


@pytest.mark.fact("activemq-broker 1.1/discardingDLQBrokerPlugin")
@pytest.mark.parametrize(("interval", "totals"), [(2, ["2", "4"]), (5, ["5"]), (1000, []), (0, [])])
async def test_the_log_has_the_number_of_discarded_messages(
    broker_with: BrokerWith,
    caplog: pytest.LogCaptureFixture,
    interval: int,
    totals: list[str],
) -> None:
    plugin = DiscardingDLQBrokerPlugin(report_interval=interval)
    with caplog.at_level(logging.INFO, "pyjms_broker.plugins.discarding_dlq"):
        async with broker_with(plugins=[plugin]) as (_, client):
            for _ in range(5):
                await poison(client, Q)
    found = [r.getMessage() for r in caplog.records if "were discarded" in r.getMessage()]
    assert [line.split()[2] for line in found] == totals


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [each for each in caplog.records if each.name.startswith(LOGGER)]
    return sorted({" ".join(each.getMessage().split()[:2]) for each in records})


SEEN = {
    "log_connection_events": ["Adding connection", "Removing connection"],
    "log_session_events": ["Adding session", "Removing session"],
    "log_transaction_events": ["Beginning transaction", "Committing transaction"],
    "log_consumer_events": ["Acknowledging queue://q:", "Adding consumer", "Removing consumer"],
    "log_producer_events": ["Adding producer", "Removing producer", "Sending message:"],
    "log_internal_events": ["Adding destination", "Sending to", "The broker"],
}
OFF = dict.fromkeys(SEEN, False)


async def use_everything(client: RawClient) -> None:
    await client.transaction(TransactionType.BEGIN, client.local(1))
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, client.local(1))
    await client.destination(Queue("created"))
    await poison(
        client,
        Q,
        correlation_id="c1",
        marshalled_properties=encode_map({"secret-property": "secret-value"}),
    )


@pytest.mark.fact("activemq-broker 1.1/loggingBrokerPlugin")
@pytest.mark.parametrize(
    ("options", "switches"),
    [
        ({}, ("log_connection_events", "log_session_events")),
        *(({**OFF, switch: True}, (switch,)) for switch in SEEN),
        ({**OFF, "log_all": True}, tuple(SEEN)),
        (OFF, ()),
    ],
    ids=["defaults", *SEEN, "log_all", "nothing"],
)
async def test_each_switch_logs_its_events(
    broker_with: BrokerWith,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    switches: tuple[str, ...],
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        async with broker_with(plugins=[LoggingBrokerPlugin(**options)]) as (_, client):
            await use_everything(client)
            producer = await client.producer(Q)
            await client.remove(producer)
    assert logged(caplog) == sorted(line for switch in switches for line in SEEN[switch])


@pytest.mark.fact("activemq-broker 1.1/loggingBrokerPlugin")
async def test_the_log_has_headers_but_no_body_property_or_password(
    broker_with: BrokerWith, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        async with broker_with(plugins=[LoggingBrokerPlugin(log_all=True)]) as (_, client):
            await use_everything(client)
    lines = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert any("destination=queue://q" in line and "correlation_id=c1" in line for line in lines)
    assert any("user joe" in line for line in lines)
    assert not [line for line in lines if "secret" in line or "bad" in line]
    password = re.compile(r"\bx\b")
    assert not [line for line in lines if "connection" in line and password.search(line)]


@pytest.mark.fact("activemq-broker 1.1/loggingBrokerPlugin")
async def test_messages_may_be_logged_by_a_logger_of_their_destination(
    broker_with: BrokerWith, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_logging, "MAXIMUM_LOGGERS", 2)
    plugin = LoggingBrokerPlugin(log_producer_events=True, per_destination_logger=True)
    with caplog.at_level(logging.INFO, LOGGER):
        async with broker_with(plugins=[plugin]) as (_, client):
            for where in (Q, Topic("news.sport"), Q, Queue("one.more")):
                await client.send(where, "x")
    names = [each.name for each in caplog.records if each.getMessage().startswith("Sending")]
    expected = [f"{LOGGER}.queue.q", f"{LOGGER}.topic.news.sport", f"{LOGGER}.queue.q", LOGGER]
    assert names == expected


async def test_the_last_plugin_is_the_outermost(broker_with: BrokerWith) -> None:
    plugins = [TraceBrokerPathPlugin(), DestinationPathSeparatorPlugin()]
    policies = PolicyMap(
        [
            PolicyEntry(
                destination=Queue("a.>"),
                dead_letter_strategy=SharedDeadLetterStrategy(dead_letter_queue=Queue("a.dead")),
            )
        ]
    )
    async with broker_with(plugins=plugins, policies=policies) as (broker, client):
        await client.destination(Queue("a/dead"))
        await poison(client, Queue("a/b"))
        assert broker.queue_statistics("a.dead").messages == 1


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (lambda: DiscardingDLQBrokerPlugin(drop_only="a ("), "drop_only: '\\(' is not a regular"),
        (lambda: DestinationPathSeparatorPlugin(path_separator=""), "path_separator: ''"),
        (lambda: DestinationPathSeparatorPlugin(path_separator="."), "path_separator: '.'"),
        (lambda: TraceBrokerPathPlugin(stamp_property=""), "stamp_property is empty"),
    ],
    ids=["expression", "no-separator", "dot", "no-property"],
)
def test_options_that_make_no_sense_are_refused(create: Callable[[], object], reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason):
        create()


DEFAULTS: dict[str, dict[str, Any]] = {
    "time_stamping": {
        "zero_expiration_override": 0,
        "ttl_ceiling": 0,
        "future_only": False,
        "process_network_messages": False,
    },
    "force_persistency_mode": {"persistence_flag": False},
    "destination_path_separator": {"path_separator": "/"},
    "logging": {
        "log_all": False,
        "log_connection_events": True,
        "log_session_events": True,
        "log_transaction_events": False,
        "log_consumer_events": False,
        "log_producer_events": False,
        "log_internal_events": False,
        "per_destination_logger": False,
    },
    "trace_broker_path": {"stamp_property": "BrokerPath"},
    "discarding_dlq": {
        "drop_all": True,
        "drop_temporary_topics": True,
        "drop_temporary_queues": True,
        "drop_only": None,
        "report_interval": 1000,
    },
}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_plugins_in_broker_yaml_have_activemqs_defaults(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "broker.yaml"
    for text in (f"plugins: [{kind}]", f"plugins: {{{kind}: null}}"):
        file.write_text(text, encoding="utf-8")
        (plugin,) = load_broker_settings(file, environ={}).plugins
        assert plugin.model_dump() == {"type": kind, **DEFAULTS[kind]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- type: time_stamping\n    ttl_ceilling: 1h", "did you mean plugins\\[0\\].ttl_ceiling"),
        ("- type: time_stamping\n    ttl_ceiling: 60", "60ms to Spring and 60s to Python"),
        ("- type: discarding_dlq\n    drop_only: (", "broker.yaml:2: plugins\\[0\\]"),
        ("- type: discarding_dlq\n    report_interval: -1", "greater than or equal to 0"),
        ("- type: timestamping", "did you mean"),
        ("- type: bogus_xyz", "Broker plug-in 'bogus_xyz' is not installed"),
    ],
)
def test_mistakes_in_broker_yaml_are_found(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(f"plugins:\n  {text}\n", encoding="utf-8")
    with pytest.raises(ConfigurationException, match=reason):
        load_broker_settings(file, environ={})
