"""Each option of `failover:` has an effect, and the defaults are ActiveMQ's.

Every option has a scenario with brokers that exist in the test only. Its outcome (which brokers are
tried when, what they are sent, what is logged and raised) differs with the option.
"""

from __future__ import annotations

import logging
import random
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport.failover.brokers import FAILOVER
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionControl, ProducerInfo
from tests.kit.brokers.fake import FakeBrokers, brokers
from tests.kit.clients.scripted_broker import clock

__all__ = ["brokers", "clock"]

Scenario = Callable[[FakeBrokers, str], Awaitable[object]]
THREE = "fake://a,fake://b,fake://c"


@asynccontextmanager
async def connected(query: str, uris: str = THREE) -> AsyncIterator[ActiveMQConnection]:
    url = f"failover:({uris})?jms.watchTopicAdvisories=false&{query}"
    connection = await ConnectionFactory(url).create_connection()
    async with connection:
        await connection.start()
        yield connection


async def pass_time(seconds: float = 0.001) -> None:
    await _clock.sleep(seconds)


async def delays(brokers: FakeBrokers, query: str) -> object:
    """When the passes after a loss begin, in milliseconds, and how that ends."""
    async with connected(query, "fake://a") as connection:
        failures: list[JMSException] = []
        connection.exception_listener = failures.append
        brokers.fail_next = 5
        brokers.lose()
        await pass_time(60)
        return [round(time * 1000) for _, time in brokers.attempts], len(failures), brokers.open


async def startup(brokers: FakeBrokers, query: str) -> object:
    brokers.fail_next = 4
    try:
        async with connected(query, "fake://a"):
            return len(brokers.attempts)
    except JMSException as error:
        return len(brokers.attempts), str(error)


async def order(brokers: FakeBrokers, query: str) -> list[str]:
    brokers.down = set("abcdefg")
    uris = ",".join(f"fake://{name}" for name in "abcdefgh")
    async with connected(query, uris):
        return [name for name, _ in brokers.attempts]


async def blocked_sends(brokers: FakeBrokers, query: str) -> object:
    """What becomes of sends while there is no broker, and when."""
    outcomes: list[object] = []
    async with connected(query) as connection:
        session = await connection.create_session()
        producer = await session.create_producer(session.create_queue("q"))
        for mode in DeliveryMode:
            brokers.down = set("abc")
            brokers.lose()
            await pass_time()
            started = _clock.now()
            try:
                with _clock.timeout(5):
                    await producer.send(session.create_text_message("x"), delivery_mode=mode)
            except JMSException as error:
                outcomes.append(str(error))
            outcomes.append(round(_clock.now() - started, 3))
            brokers.down = set()
            await pass_time(60)
            sent = brokers.connections[-1].sent
            outcomes.append(sum(isinstance(command, ActiveMQMessage) for command in sent))
    return outcomes


async def backups(brokers: FakeBrokers, query: str) -> object:
    async with connected(query):
        await pass_time()
        count = len(brokers.open)
        brokers.lose(0)
        await pass_time(60)
        return count, len(brokers.open)


async def priorities(brokers: FakeBrokers, query: str) -> list[list[str]]:
    """The broker in use after its first choice was down for a while."""
    brokers.down = {"a", "b"}
    async with connected(f"randomize=false&{query}"):
        used = [brokers.open]
        brokers.down = set()
        await pass_time(60)
        return [*used, brokers.open]


async def replayed_messages(brokers: FakeBrokers, query: str) -> list[type[ActiveMQMessage]]:
    async with connected(query) as connection:
        session = await connection.create_session()
        producer = await session.create_producer(session.create_queue("q"))
        message = session.create_text_message("some text")
        await producer.send(message, delivery_mode=DeliveryMode.NON_PERSISTENT)
        brokers.lose()
        await pass_time(1)
        sent = brokers.connections[-1].sent
        return [type(command) for command in sent if isinstance(command, ActiveMQMessage)]


async def replayed_producers(brokers: FakeBrokers, query: str) -> list[type[ProducerInfo]]:
    async with connected(query) as connection:
        session = await connection.create_session(True)
        producer = await session.create_producer(session.create_queue("q"))
        await producer.send(session.create_text_message("x"))
        await producer.close()
        brokers.lose()
        await pass_time(1)
        sent = brokers.connections[-1].sent
        return [type(command) for command in sent if isinstance(command, ProducerInfo)]


async def announcement(brokers: FakeBrokers, query: str) -> list[list[str]]:
    """The broker in use after one has announced another."""
    async with connected(query, "fake://a"):
        brokers.connections[0].deliver(
            ConnectionControl(connected_brokers="fake://z?x=1", rebalance_connection=True)
        )
        await pass_time(1)
        used = [brokers.open]
        brokers.down = {"a"}
        brokers.lose()
        await pass_time(1)
        return [*used, brokers.open]


async def redirection(brokers: FakeBrokers, query: str) -> list[str]:
    async with connected(query, "fake://a"):
        brokers.connections[0].deliver(ConnectionControl(reconnect_to="fake://z"))
        await pass_time(1)
        return brokers.open


async def file_of_brokers(brokers: FakeBrokers, query: str) -> object:
    brokers.down = {"a"}
    try:
        async with connected(f"maxReconnectAttempts=1&{query}", "fake://a"):
            return brokers.open
    except JMSException as error:
        return str(error)


async def warnings(brokers: FakeBrokers, query: str) -> object:
    return await delays(brokers, query)


async def nested(brokers: FakeBrokers, query: str) -> dict[str, str]:
    async with connected(query):
        return brokers.connections[0].options


OPTIONS: dict[str, tuple[str, Scenario, str]] = {
    "initialReconnectDelay": ("70", delays, ""),
    "maxReconnectDelay": ("15", delays, ""),
    "useExponentialBackOff": ("false", delays, ""),
    "reconnectDelayExponent": ("3", delays, ""),
    "backOffMultiplier": ("3", delays, ""),
    "maxReconnectAttempts": ("2", delays, ""),
    "startupMaxReconnectAttempts": ("2", startup, ""),
    "warnAfterReconnectAttempts": ("2", warnings, ""),
    "randomize": ("false", order, ""),
    "timeout": ("700", blocked_sends, ""),
    "backup": ("true", backups, ""),
    "backupPoolSize": ("2", backups, "backup=true&"),
    "priorityBackup": ("true", priorities, ""),
    "priorityURIs": ("fake://b", priorities, "priorityBackup=true&"),
    "trackMessages": ("true", replayed_messages, ""),
    "maxCacheSize": ("5", replayed_messages, "trackMessages=true&"),
    "trackTransactionProducers": ("false", replayed_producers, ""),
    "updateURIsSupported": ("false", announcement, ""),
    "rebalanceUpdateURIs": ("false", announcement, ""),
    "reconnectSupported": ("false", redirection, ""),
    "updateURIsURL": ("file:{folder}/brokers", file_of_brokers, ""),
    "nested.x": ("1", nested, ""),
}
"""The value, the scenario, and the options without which the option has no effect."""

DEFAULTS = {
    "initialReconnectDelay": "10",
    "maxReconnectDelay": "30000",
    "useExponentialBackOff": "true",
    "reconnectDelayExponent": "2.0",
    "backOffMultiplier": "2.0",
    "maxReconnectAttempts": "-1",
    "startupMaxReconnectAttempts": "-1",
    "warnAfterReconnectAttempts": "10",
    "randomize": "true",
    "timeout": "-1",
    "backup": "false",
    "backupPoolSize": "1",
    "priorityBackup": "false",
    "priorityURIs": "",
    "trackMessages": "false",
    "maxCacheSize": "131072",
    "trackTransactionProducers": "true",
    "updateURIsSupported": "true",
    "rebalanceUpdateURIs": "true",
    "reconnectSupported": "true",
    "updateURIsURL": "",
}


async def outcome(
    brokers: FakeBrokers, scenario: Scenario, query: str, caplog: pytest.LogCaptureFixture
) -> tuple[object, list[str]]:
    brokers.__init__()  # type: ignore[misc]
    caplog.clear()
    random.seed(5)  # so that no difference is by chance
    with caplog.at_level(logging.INFO, "pyjms.transport.failover"):
        seen = await scenario(brokers, query)
    return seen, [record.getMessage() for record in caplog.records]


@pytest.mark.fact("activemq-edges F0")
@pytest.mark.parametrize("name", sorted(OPTIONS))
async def test_an_option_has_an_effect(
    name: str,
    brokers: FakeBrokers,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    value, scenario, others = OPTIONS[name]
    (tmp_path / "brokers").write_text("fake://f1\nfake://f2,fake://f1\n", encoding="utf-8")
    before = await outcome(brokers, scenario, others, caplog)
    query = f"{others}{name}={value.format(folder=tmp_path)}"
    after = await outcome(brokers, scenario, query, caplog)
    assert before != after


@pytest.mark.fact("activemq-edges F0")
@pytest.mark.parametrize("name", sorted(DEFAULTS))
async def test_the_default_is_activemqs(
    name: str, brokers: FakeBrokers, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    _, scenario, others = OPTIONS[name]
    before = await outcome(brokers, scenario, others, caplog)
    assert await outcome(brokers, scenario, f"{others}{name}={DEFAULTS[name]}", caplog) == before


class _List(BaseHTTPRequestHandler):
    """A web page with a list of brokers at /brokers, for anna at /own, something else at /binary."""

    def do_GET(self) -> None:
        found = {"/brokers": b"fake://f1\nfake://f2", "/binary": b"\xff\xfe\x00"}
        if self.headers["Authorization"] == f"Basic {b64encode(b'anna:s:cret').decode()}":
            found["/own"] = b"fake://f3"
        body = found.get(self.path.partition("?")[0])
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - its name


@pytest.fixture
def web() -> Iterator[str]:
    """The authority of a web server with lists of brokers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _List)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.fact("activemq-edges F0")
async def test_a_list_of_brokers_on_a_web_server(brokers: FakeBrokers, web: str) -> None:
    seen = await file_of_brokers(brokers, f"updateURIsURL=http://{web}/brokers&randomize=false")
    assert seen == ["f1"]
    brokers.__init__()  # type: ignore[misc]
    seen = await file_of_brokers(brokers, f"updateURIsURL=http://anna:s%253Acret@{web}/own")
    assert seen == ["f3"]


@pytest.mark.parametrize(
    ("user", "shown", "page"),
    [("", "", "missing"), ("", "", "binary"), ("bob:secret@", "***@", "own")],
)
async def test_a_list_that_cannot_be_read_is_one_warning_and_not_the_end(
    brokers: FakeBrokers,
    web: str,
    user: str,
    shown: str,
    page: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(f"updateURIsURL=http://{user}{web}/{page}?key=secret", "fake://a"):
        assert brokers.open == ["a"]
    (line,) = [r.getMessage() for r in caplog.records if "updateURIsURL" in r.getMessage()]
    assert f"http://{shown}{web}/{page}, is not used" in line
    assert "secret" not in caplog.text


async def test_a_binary_file_causes_one_warning_and_no_failure(
    brokers: FakeBrokers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "brokers").write_bytes(b"\xff\xfe\x00")
    async with connected(f"updateURIsURL=file:{tmp_path}/brokers", "fake://a"):
        assert brokers.open == ["a"]
    assert "is not used" in caplog.text


def test_no_option_is_missing() -> None:
    assert OPTIONS.keys() - {"nested.x"} == DEFAULTS.keys() == FAILOVER.keys()


@pytest.mark.fact("activemq-edges F1")
async def test_delays_double_up_to_the_maximum(brokers: FakeBrokers, clock: VirtualClock) -> None:
    seen = await delays(brokers, "initialReconnectDelay=100&maxReconnectDelay=500")
    assert seen == ([100, 300, 700, 1200, 1700, 2200], 0, ["a"])


@pytest.mark.fact("activemq-edges F1")
async def test_the_broker_that_failed_is_tried_last(
    brokers: FakeBrokers, clock: VirtualClock
) -> None:
    async with connected("randomize=false"):
        brokers.down = {"b"}
        brokers.lose()
        await pass_time(1)
        assert [name for name, _ in brokers.attempts] == ["b", "c"]


async def test_an_outage_has_one_warning_and_one_line_at_its_end(
    brokers: FakeBrokers, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected("initialReconnectDelay=100"):
        with caplog.at_level(logging.INFO, "pyjms"):
            brokers.fail_next = 3
            brokers.lose()
            await pass_time(60)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "is lost" in caplog.records[0].getMessage()
    assert "Connected again" in caplog.records[1].getMessage()


async def test_connections_that_lose_a_broker_together_have_one_warning_and_one_line(
    brokers: FakeBrokers, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    options = "initialReconnectDelay=100"
    async with connected(options), connected(options), connected(options):
        with caplog.at_level(logging.INFO, "pyjms"):
            for _ in range(2):
                brokers.fail_next = 9
                for index in (-1, -2, -3):
                    brokers.lose(index)
                await pass_time(60)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"] * 2


async def test_a_connection_in_the_place_of_one_closed_in_the_outage_reports_its_end(
    brokers: FakeBrokers, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    options = "initialReconnectDelay=100"
    with caplog.at_level(logging.INFO, "pyjms"):
        async with connected(options):
            brokers.fail_next = 99
            brokers.lose()
        brokers.fail_next = 3
        async with connected(options), connected(options):
            pass
    ends = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert [text.startswith("Connected to mock://") for text in ends] == [True]


@pytest.mark.fact("activemq-edges F7")
@pytest.mark.parametrize(
    ("options", "used"),
    [
        ("", "cc"),
        ("priorityBackup=true", "ca"),
        ("priorityBackup=true&priorityURIs=fake://b", "cb"),
        ("priorityBackup=true&priorityURIs=fake://c", "cc"),
    ],
)
async def test_a_client_returns_to_its_priority_broker(
    options: str, used: str, brokers: FakeBrokers, clock: VirtualClock
) -> None:
    assert await priorities(brokers, options) == [[name] for name in used]
