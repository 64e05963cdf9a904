"""Start, stop, restart, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    RequestTimeoutException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.runtime.build import build_name
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.tcp import TcpConnector
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker


class Deaf:
    """A transport's listener that hears nothing."""

    def on_command(self, command: object) -> None: ...

    def on_exception(self, error: Exception) -> None: ...


def send(service: BrokerService, name: str) -> ActiveMQMessage:
    producer = ProducerId("c", 1, 1)
    message = ActiveMQMessage(
        producer, Queue(name), message_id=MessageId(None, producer, _clock.time_ms())
    )
    service.broker.send(ProducerExchange(ConnectionContext()), message)
    return message


@pytest.mark.fact("activemq-broker B7")
async def test_a_start_opens_the_store_then_destinations_then_connectors(tmp_path: Path) -> None:
    order: list[str] = []

    class Watched(BrokerFilter):
        """Notes what happens, and whether connectors are open then."""

        def add_destination(self, *arguments: Any) -> BrokerDestination:
            note(str(arguments[1]))
            return super().add_destination(*arguments)

        def now_master_broker(self) -> None:
            note("master")
            super().now_master_broker()

    def note(what: str) -> None:
        assert isinstance(connector, TcpConnector)
        store = service.stores.store.state.name
        order.append(f"{what}, store {store}, connector open: {connector.started}")

    service = BrokerService(
        "order",
        data_directory=tmp_path,
        advisory_support=False,
        destinations=[Queue("ready")],
        plugins=[Watched],
        startup_hooks=[lambda: note("hook")],
    )
    connector = cast("TcpConnector", service.add_connector("tcp://127.0.0.1:0"))
    async with service:
        assert order == [
            "queue://ready, store RUNNING, connector open: False",
            "master, store RUNNING, connector open: True",
            "hook, store RUNNING, connector open: True",
        ]


@pytest.mark.fact("activemq-broker B7")
async def test_start_opens_stop_closes_and_both_are_idempotent() -> None:
    service = BrokerService("life", persistent=False, destinations=[Queue("ready")])
    with pytest.raises(IllegalStateException, match="has not been started"):
        _ = service.broker
    with pytest.raises(IllegalStateException, match="has not been started"):
        _ = service.region_broker
    await service.stop()
    await service.wait_until_stopped()
    connector = service.add_connector("tcp://127.0.0.1:0", name="openwire")
    await service.start()
    broker = service.broker
    await service.start()
    assert service.broker is broker
    assert service.started
    assert Queue("ready") in service.region_broker.destinations()
    assert service.connect_uri == connector.connect_uri
    assert service.vm_uri == "vm://life"
    found = vm_registry.find("life")
    assert found is not None
    assert found.host is service
    await service.stop()
    await service.stop()
    await service.wait_until_stopped()
    assert not service.started
    assert vm_registry.find("life") is None  # type: ignore[unreachable]
    with pytest.raises(IllegalStateException, match="Broker has been stopped"):
        send(service, "q")
    transport = create_transport(connector.connect_uri)
    transport.listener = Deaf()
    with pytest.raises(ConnectionFailedException):
        await transport.start()
    await transport.stop()


async def test_connectors_and_the_broker_are_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "pyjms_broker")
    service = BrokerService("logged", persistent=False)
    service.add_connector("tcp://127.0.0.1:0", name="openwire")
    async with service:
        assert f"Connector openwire started: {service.connect_uri}" in caplog.messages
        started = f"Broker logged started, at {service.connect_uri} ({build_name()})"
        assert started in caplog.messages
    assert "Broker logged stopped" in caplog.messages


async def test_a_restart_is_a_new_broker_unless_forbidden() -> None:
    async with BrokerService("again", persistent=False) as service:
        send(service, "q")
    async with service:
        assert Queue("q") not in service.region_broker.destinations()
        send(service, "q")
    once = BrokerService("once", persistent=False, restart_allowed=False)
    async with once:
        pass
    with pytest.raises(IllegalStateException, match="Restart of broker 'once' is not allowed"):
        await once.start()


async def test_two_brokers_of_one_name_do_not_run_at_once() -> None:
    async with BrokerService("twin", persistent=False):
        second = BrokerService("twin", persistent=False)
        with pytest.raises(IllegalStateException, match="A broker named 'twin' already runs"):
            await second.start()
        assert not second.started
    async with second:
        assert second.started


@pytest.mark.fact("activemq-broker B7")
async def test_a_connector_that_cannot_bind_stops_everything() -> None:
    async with BrokerService("first", persistent=False) as first:
        taken = first.add_connector("tcp://127.0.0.1:0")
        await taken.start()
        second = BrokerService("second", persistent=False)
        open_first = second.add_connector("tcp://127.0.0.1:0")
        second.add_connector(taken.connect_uri, name="door")
        with pytest.raises(ResourceAllocationException, match="door"):
            await second.start()
        assert not second.started
        assert vm_registry.find("second") is None
        transport = create_transport(open_first.connect_uri)
        transport.listener = Deaf()
        with pytest.raises(ConnectionFailedException):
            await transport.start()
        await transport.stop()


def test_unknown_connectors_are_refused() -> None:
    with pytest.raises(ConfigurationException, match="NOT recognized"):
        BrokerService("x").add_connector("carrier-pigeon://roof:1")


class Tagged(BrokerFilter):
    """Notes its name whenever a message passes."""

    def __init__(self, next_broker: Broker, name: str, log: list[str]) -> None:
        super().__init__(next_broker)
        self.name = name
        self.log = log

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        self.log.append(self.name)
        return self.next.send(exchange, message)


@pytest.mark.fact("activemq-broker B1")
async def test_the_chain_in_its_order() -> None:
    log: list[str] = []
    service = BrokerService(
        "chain",
        persistent=False,
        populate_jmsx_user_id=True,
        plugins=[lambda b: Tagged(b, "first", log), lambda b: Tagged(b, "last", log)],
    )
    async with service:
        link: Broker = service.broker
        names = []
        while isinstance(link, BrokerFilter):
            names.append(getattr(link, "name", type(link).__name__))
            link = link.next
        names.append(type(link).__name__)
        send(service, "q")
    assert names == [
        "StopGuard",
        "last",
        "first",
        "UserIDBroker",
        "TransactionBroker",
        "UnscheduledSendsBroker",
        "CompositeDestinationBroker",
        "RangesBroker",
        "AdvisoryBroker",
        "RegionBroker",
    ]
    assert log == ["last", "first"]
    async with BrokerService("plain", persistent=False, advisory_support=False) as plain:
        link, names = plain.broker, []
        while isinstance(link, BrokerFilter):
            names.append(type(link).__name__)
            link = link.next
        assert names == [
            "StopGuard",
            "TransactionBroker",
            "UnscheduledSendsBroker",
            "CompositeDestinationBroker",
            "RangesBroker",
        ]


async def test_vm_makes_a_broker_from_the_urls_options_and_stops_it_with_its_last_client() -> None:
    transport = create_transport("vm://made?broker.persistent=false&broker.useVirtualTopics=false")
    transport.listener = Deaf()
    await transport.start()
    found = vm_registry.find("made")
    assert found is not None
    assert isinstance(found.host, BrokerService)
    assert not found.host.use_virtual_topics
    await transport.stop()
    assert vm_registry.find("made") is None
    assert not found.host.started


async def test_vm_takes_a_broker_uri() -> None:
    config = "broker:(tcp://127.0.0.1:0)/configured?persistent=false"
    transport = create_transport(f"vm:({config})")
    transport.listener = Deaf()
    await transport.start()
    found = vm_registry.find("configured")
    assert found is not None
    assert isinstance(found.host, BrokerService)
    assert found.host.connect_uri.startswith("tcp://127.0.0.1:")
    await transport.stop()


async def test_stop_is_finished_although_it_is_cancelled() -> None:
    service = BrokerService("cancelled", persistent=False)
    await service.start()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await service.stop()
    assert not service.started
    assert vm_registry.find("cancelled") is None


async def test_two_stops_end_together() -> None:
    service = BrokerService("both", persistent=False)
    await service.start()
    async with anyio.create_task_group() as group:
        group.start_soon(service.stop)
        group.start_soon(service.stop)
        group.start_soon(service.wait_until_stopped)
    assert not service.started


async def test_drained_waits_for_the_last_message_and_reports_remaining_ones() -> None:
    async with EmbeddedTestBroker() as broker:
        with pytest.raises(InvalidDestinationException, match="There is no queue://nothing"):
            await broker.drained("nothing.there")
        message = send(broker.service, "q")
        with pytest.raises(RequestTimeoutException, match=r"queue://q .* 1 messages, 0 of them"):
            await broker.drained("q", timeout=0)
        there = broker.service.region_broker.destinations()[Queue("q")]

        async def purge() -> None:
            await anyio.lowlevel.checkpoint()
            broker.service.broker.remove_destination(ConnectionContext(), Queue("q"), 1)

        async with anyio.create_task_group() as group:
            group.start_soon(purge)
            await broker.drained("q")
        assert there.watchers == []
        assert message.destination == Queue("q")
        assert broker.queue_statistics("q").messages == 0


async def test_the_test_broker_has_a_unique_url_and_a_port_on_request() -> None:
    async with EmbeddedTestBroker() as one, EmbeddedTestBroker() as two:
        assert one.url != two.url
        assert one.url.startswith("vm://test-")
        url = await one.tcp_url()
        assert url == await one.tcp_url()
        assert url.startswith("tcp://127.0.0.1:")
        transport = create_transport(url)
        transport.listener = Deaf()
        await transport.start()
        await transport.stop()


class StuckConnector(TransportConnector):
    """A connector whose connections never end."""

    @property
    def connect_uri(self) -> str:
        return "stuck://here"

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        await anyio.sleep_forever()


async def test_stop_does_not_wait_for_connections_forever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = BrokerService("stuck", persistent=False)
    service.connectors.append(StuckConnector(service, TransportURI("stuck")))
    await service.start()
    await service.stop(timeout=0.01)
    assert "connections did not close within 0.01 s" in caplog.text
    assert not service.started
    assert vm_registry.find("stuck") is None


async def test_a_connector_that_fails_to_stop_does_not_keep_the_broker_open() -> None:
    class Broken(StuckConnector):
        async def stop(self) -> None:
            raise OSError("no")

    service = BrokerService("broken", persistent=False)
    service.connectors.append(Broken(service, TransportURI("stuck")))
    await service.start()
    with pytest.raises(OSError, match="no"):
        await service.stop()
    assert not service.started
    with pytest.raises(IllegalStateException, match="Broker has been stopped"):
        send(service, "q")
