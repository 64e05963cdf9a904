from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

import anyio
import pytest

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    IllegalStateException,
    ResourceAllocationException,
)
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionId, ConnectionInfo, ControlCommand
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.connector.vm.client import IGNORED, OPTIONS, vm_transport
from pyjms_broker.connector.vm.connector import VmConnector
from pyjms_broker.service import BrokerService
from pyjms_broker.service.uri import check_options
from tests.kit.clients.recording_broker import Client, Host


@pytest.fixture
async def registered(host: Host) -> AsyncIterator[vm_registry.Registration]:
    yield vm_registry.register("recording", host)
    await vm_registry.unregister("recording", host)


class MadeHost(Host):
    """Unregisters itself when it is stopped, as a broker service does."""

    async def stop(self) -> None:
        await super().stop()
        await vm_registry.unregister(self.broker_name, self)


class Factory:
    """What a broker service sets: it makes brokers and counts them."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, str], str | None]] = []
        self.hosts: list[Host] = []

    async def __call__(self, name: str, options: Mapping[str, str], config: str | None) -> Host:
        await anyio.lowlevel.checkpoint()
        host = MadeHost()
        host.broker_name = name
        self.made.append((name, dict(options), config))
        self.hosts.append(host)
        vm_registry.register(name, host)
        return host


@pytest.fixture
def factory() -> Iterator[Factory]:
    factory = Factory()
    set_factory(factory)
    yield factory
    set_factory(BrokerService.start_for_vm)


def set_factory(factory: vm_registry.BrokerFactory) -> None:
    vm_registry.set_factory(factory, check_options)


def made(url: str) -> RequestTransport:
    transport = vm_transport(TransportURI.parse(url))
    transport.listener = RecordingListener()
    return transport


async def started(url: str) -> RequestTransport:
    transport = made(url)
    await transport.start()
    return transport


async def test_vm_finds_a_broker_that_runs(
    registered: vm_registry.Registration, host: Host, factory: Factory
) -> None:
    transport = await started("vm://recording")
    assert isinstance(transport.listener, RecordingListener)
    assert (await transport.listener.next(BrokerInfo)).broker_url == "vm://recording"
    await transport.request(ConnectionInfo(ConnectionId("c1"), "me"))
    assert transport.remote_address.startswith("vm://recording#")
    await transport.stop()
    assert host.recording.names[-1] == "remove_connection"
    assert (factory.made, host.stops) == ([], 0)


async def test_registering_a_broker_makes_the_scheme_known(
    registered: vm_registry.Registration,
) -> None:
    transport = create_transport("vm://recording")
    transport.listener = RecordingListener()
    await transport.start()
    await transport.stop()


async def test_commands_cross_as_they_are_or_as_bytes_if_asked_to(
    registered: vm_registry.Registration, host: Host
) -> None:
    for url, same in (("vm://recording", True), ("vm://recording?marshal=true", False)):
        transport = await started(url)
        info = ConnectionInfo(ConnectionId(f"c{same}"), "me")
        await transport.request(info)
        assert (host.recording.args("add_connection")[1] is info) is same
        await transport.stop()


@pytest.mark.fact("activemq-broker B14")
async def test_vm_options(host: Host, factory: Factory) -> None:
    # nobody there: it is made, once, with the broker.* attributes; and stops with its last client
    url = "vm://auto?broker.persistent=false&brokerConfig=broker:()/auto"
    clients: list[RequestTransport] = []

    async def connect() -> None:
        clients.append(await started(url))

    async with anyio.create_task_group() as group:
        group.start_soon(connect)
        group.start_soon(connect)
    assert factory.made == [("auto", {"persistent": "false"}, "broker:()/auto")]
    third = await started("vm://auto?broker.persistent=true")  # ignored: it runs already
    assert len(factory.made) == 1
    (auto,) = factory.hosts
    await clients[0].stop()
    await clients[1].stop()
    assert auto.stops == 0
    await third.stop()
    assert auto.stops == 1
    assert vm_registry.find("auto") is None

    with pytest.raises(ConnectionFailedException, match=r"Broker named 'none' does not exist\."):
        await started("vm://none?create=false")

    # waitForStart: it comes in time, or it does not
    results: list[object] = []

    async def wait(name: str) -> None:
        try:
            results.append(await started(f"vm://{name}?create=false&waitForStart=3000"))
        except ConnectionFailedException as error:
            results.append(str(error))

    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(wait, "never")
        group.start_soon(wait, "late")
        await anyio.wait_all_tasks_blocked()
        await clock.advance(2)
        vm_registry.register("late", host)
        await clock.advance(1.1)
    late = next(r for r in results if isinstance(r, RequestTransport))
    assert "Broker named 'never' does not exist." in "".join(
        str(r) for r in results if r is not late
    )
    await late.stop()
    await vm_registry.unregister("late", host)

    with pytest.raises(ConfigurationException, match=r"Invalid connect parameters: \{foo=1\}"):
        made("vm://x?foo=1")

    # marshal=true takes wireFormat.*
    marshalling = await started(
        "vm://bytes?marshal=true&wireFormat.version=9&wireFormat.tightEncodingEnabled=true"
    )
    agreed = marshalling.next.wire_format.negotiated  # type: ignore[attr-defined]
    assert (agreed.version, agreed.tight_encoding_enabled) == (9, True)
    await marshalling.request(ConnectionInfo(ConnectionId("c1"), "me"))
    await marshalling.stop()


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("async=false", ["async (commands are handed over without threads)"]),
        ("soTimeout=1", ["soTimeout (wireFormat.maxInactivityDuration ends silent connections)"]),
        (
            "wireFormat.version=9",
            ["wireFormat.version (commands are encoded only with marshal=true)"],
        ),
        ("wireFormat.version=9&marshal=true", []),
        ("create=true&waitForStart=10", []),
    ],
)
async def test_vm_options_without_effect_are_logged_with_the_reason(
    query: str, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        made(f"vm://x?{query}")
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert found == [f"vm: accepted without effect: {line}" for line in lines]


async def test_options_of_a_broker_that_runs_already_are_logged_once(
    factory: Factory, caplog: pytest.LogCaptureFixture
) -> None:
    first = await started("vm://shared?broker.persistent=false")
    with caplog.at_level(logging.INFO):
        others = [await started("vm://shared?broker.persistent=false")]
        assert "shared" not in caplog.text
        others += [await started("vm://shared?broker.persistent=true") for _ in range(2)]
        others += [await started("vm://shared?brokerConfig=broker:()/shared")]
    found = [r.getMessage() for r in caplog.records if "shared" in r.getMessage()]
    assert found == [
        f"vm://shared: accepted without effect, since this broker runs already: {name}"
        for name in ("broker.persistent", "brokerConfig")
    ]
    for transport in (*others, first):
        await transport.stop()


async def test_a_bridge_does_not_keep_a_made_broker_running(factory: Factory) -> None:
    client = await started("vm://auto")
    bridge = await started("vm://auto?create=false&network=true")
    (auto,) = factory.hosts
    other = await started("vm://auto?network=true")
    await other.stop()
    await client.stop()
    assert auto.stops == 1
    await bridge.stop()
    assert auto.stops == 1


def test_every_vm_option_is_tested() -> None:
    tested = {
        "create": test_vm_options,
        "waitForStart": test_vm_options,
        "brokerConfig": test_vm_options,
        "marshal": test_commands_cross_as_they_are_or_as_bytes_if_asked_to,
        "network": test_a_bridge_does_not_keep_a_made_broker_running,
    }
    assert OPTIONS.keys() == tested.keys()
    assert IGNORED.keys() == {"async"}


_BROKER = "broker:(tcp://127.0.0.1:0)"


@pytest.mark.fact("activemq-broker B14a")
@pytest.mark.parametrize(
    ("url", "name", "config"),
    [
        (f"vm:({_BROKER}/a?x=1)", "a", f"{_BROKER}/a?x=1"),
        (f"vm://({_BROKER}/a?x=1)?marshal=false", "a", f"{_BROKER}/a?x=1"),
        (f"vm:({_BROKER}?x=1)", "localhost", f"{_BROKER}?x=1"),
        (f"vm:({_BROKER}?brokerName=a)", "a", f"{_BROKER}?brokerName=a"),
        (f"vm:{_BROKER}?x=1", "localhost", f"{_BROKER}?x=1"),
        (f"vm:{_BROKER}/a?x=1", "a", f"{_BROKER}/a?x=1"),
        (f"vm:{_BROKER}?brokerName=a&x=1", "a", f"{_BROKER}?brokerName=a&x=1"),
        ("vm:(broker:()/a?x=1)", "a", "broker:()/a?x=1"),
        ("vm:broker:()", "localhost", "broker:()"),
    ],
)
async def test_a_composite_names_the_broker_to_make(
    factory: Factory, url: str, name: str, config: str
) -> None:
    transport = await started(url)
    assert factory.made == [(name, {}, config)]
    await transport.stop()


def test_an_option_of_the_broker_is_named_as_one() -> None:
    with pytest.raises(ConfigurationException) as caught:
        made("vm://x?persistent=false")
    assert "write broker.persistent=..., or vm:(broker:()/name?persistent=...)" in str(caught.value)


async def test_a_factory_that_fails_leaves_no_trace(factory: Factory) -> None:
    async def fails(*_args: object) -> Host:
        raise ResourceAllocationException("no disk")

    set_factory(fails)
    with pytest.raises(ResourceAllocationException, match="no disk"):
        await started("vm://auto")
    set_factory(factory)
    transport = await started("vm://auto")
    await transport.stop()


async def test_a_made_broker_must_have_the_name(factory: Factory) -> None:
    async def other(name: str, options: Mapping[str, str], config: str | None) -> Host:
        return await factory("other", options, config)

    set_factory(other)
    with pytest.raises(ResourceAllocationException, match="did not register under that name"):
        await started("vm://auto")
    await factory.hosts[0].stop()


async def test_a_broker_that_stops_closes_its_vm_clients(
    registered: vm_registry.Registration, host: Host
) -> None:
    transport = await started("vm://recording")
    await vm_registry.unregister("recording", host)
    assert isinstance(transport.listener, RecordingListener)
    assert isinstance(await transport.listener.error(), ConnectionFailedException)
    await transport.stop()
    assert vm_registry.find("recording") is None


async def test_two_running_brokers_cannot_share_a_name(
    registered: vm_registry.Registration, host: Host
) -> None:
    vm_registry.register("recording", host)  # itself again is fine
    with pytest.raises(IllegalStateException, match="already runs in this process"):
        vm_registry.register("recording", type(host)())


async def test_a_broker_whose_loop_has_ended_does_not_exist(host: Host) -> None:
    async def elsewhere() -> None:
        vm_registry.register("elsewhere", host)

    thread = threading.Thread(target=anyio.run, args=(elsewhere,))
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    with pytest.raises(ConnectionFailedException, match="does not exist"):
        await started("vm://elsewhere?create=false")


async def test_the_number_of_connections_is_limited(
    connector: VmConnector, connect: Callable[[], Awaitable[Client]]
) -> None:
    connector.maximum_connections = 1
    client = await connect()
    with pytest.raises(ResourceAllocationException, match="maximum of 1"):
        await connect()
    await client.ask(ControlCommand("still served"))
