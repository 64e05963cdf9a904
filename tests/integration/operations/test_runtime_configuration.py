"""Changes of the configuration file take effect in a running broker. (activemq-broker 1.1)"""

from __future__ import annotations

import itertools
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyjms.configuration.logs import LoggingSettings
from pyjms.errors import ConfigurationException, JMSSecurityException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import AckType
from pyjms_broker.cli.start import service_from_uri
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.brokers.commands import broker_process, listening_at, stopped
from tests.kit.brokers.security import SecuredBroker
from tests.kit.clients.checks import exchange_message
from tests.kit.clients.raw import RawClient
from tests.kit.processes.forked_python import ForkedPython
from tests.kit.waiting import until_stored

pytestmark = pytest.mark.fact("activemq-broker 1.1/runtimeConfigurationPlugin")
PLUGIN = {"type": "runtime_configuration"}
Q, DLQ, COPY = Queue("q"), Queue("ActiveMQ.DLQ"), Queue("copy")
_numbers = itertools.count(1)


class Configured:
    """A running broker, and the file that configures it."""

    def __init__(self, file: Path, values: dict[str, Any]) -> None:
        self.file = file
        self.values: dict[str, Any] = {
            "broker_name": f"runtime-{next(_numbers)}",
            "persistent": False,
            "plugins": [PLUGIN],
            **values,
        }
        self.write()
        self.service = BrokerService.from_settings(load_broker_settings(file))
        self.clients = SecuredBroker(EmbeddedTestBroker(self.service))

    def write(self, **changes: Any) -> None:
        self.values |= changes
        self.file.write_text(yaml.safe_dump(self.values), encoding="utf-8")

    async def update(self, *, read_users: bool = False, **changes: Any) -> tuple[Any, Any]:
        """Change and reload the file; return the applied and the pending changes."""
        self.write(**changes)
        assert self.service.updates is not None
        found: Any = await self.service.updates.update(read_users=read_users)
        return found.applied, found.pending

    async def client(self, user_name: str | None = None, password: str = "secret") -> RawClient:
        return await self.clients.client(user_name, password)

    def size(self, queue: Queue) -> int:
        found = self.service.region_broker.destinations().get(queue)
        return 0 if found is None else found.statistics.messages


Configure = Callable[..., AbstractAsyncContextManager[Configured]]


@pytest.fixture
def configured(tmp_path: Path) -> Configure:
    """Starts a broker with these settings."""

    @asynccontextmanager
    async def start(**values: Any) -> AsyncIterator[Configured]:
        made = Configured(tmp_path / "broker.yaml", values)
        async with made.service:
            try:
                yield made
            finally:
                for client in made.clients.clients:
                    await client.cut()

    return start


def users(*names: str) -> dict[str, Any]:
    listed = [{"username": name, "password": "secret", "groups": f"{name}s"} for name in names]
    return {"type": "simple_authentication", "users": listed}


def rights(**groups: str) -> dict[str, Any]:
    return {"type": "authorization", "entries": [{"destination": ">", "admin": "*", **groups}]}


async def test_the_log_of_the_process_changes(configured: Configure) -> None:
    async with configured(logging={"root": "INFO"}) as broker:
        changed: list[LoggingSettings | None] = []
        broker.service.change_logging = changed.append
        applied, pending = await broker.update(logging={"root": "INFO", "pyjms_broker": "DEBUG"})
        assert (applied, pending) == (["logging.pyjms_broker"], [])
        levels = [settings and settings.levels for settings in changed]
        assert levels == [{"root": "INFO", "pyjms_broker": "DEBUG"}]
        broker.service.change_logging = None
        applied, pending = await broker.update(logging={})
        assert (applied, pending) == (
            [],
            ["logging: the log belongs to the program around the broker"],
        )


async def test_users_and_rights_change_for_clients_that_are_connected_too(
    configured: Configure,
) -> None:
    plugins = [users("reader", "writer"), rights(write="writers"), PLUGIN]
    async with configured(plugins=plugins) as broker:
        writer, reader = await broker.client("writer"), await broker.client("reader")
        await writer.send(Q, "x")
        with pytest.raises(JMSSecurityException):
            await broker.client("new")
        plugins = [users("reader", "new"), rights(write="news", read="readers"), PLUGIN]
        applied, pending = await broker.update(plugins=plugins)
        assert applied == [
            "plugins[0].users[1].username",
            "plugins[0].users[1].groups",
            "plugins[1].entries[0].read",
            "plugins[1].entries[0].write",
        ]
        assert pending == []
        await reader.consumer(Q)
        await (await broker.client("new")).send(Q, "y")
        with pytest.raises(JMSSecurityException, match="not authorized to write to"):
            await writer.send(Q, "z")
        with pytest.raises(JMSSecurityException, match="password is invalid"):
            await broker.client("writer")


async def test_files_of_users_are_read_again_on_request(
    configured: Configure, tmp_path: Path
) -> None:
    file, groups = tmp_path / "users.properties", tmp_path / "groups.properties"
    file.write_text("a=secret\n", encoding="utf-8")
    groups.write_text("", encoding="utf-8")
    login = {
        "type": "properties_authentication",
        "users_file": str(file),
        "groups_file": str(groups),
    }
    async with configured(plugins=[login, PLUGIN]) as broker:
        await broker.client("a")
        file.write_text("b=secret\n", encoding="utf-8")
        assert await broker.update() == ([], [])
        await broker.client("a")
        assert await broker.update(read_users=True) == (
            ["plugins[0] (properties_authentication)"],
            [],
        )
        await broker.client("b")
        with pytest.raises(JMSSecurityException):
            await broker.client("a")
        file.unlink()
        applied, (pending,) = await broker.update(read_users=True)
        assert applied == []
        assert pending.startswith(f"plugins[0] (properties_authentication): {file} cannot be read")
        await broker.client("b")


async def poisoned(client: RawClient) -> None:
    consumer = await client.consumer(Q)
    await client.send(Q, "bad")
    await client.ack(await client.dispatched(), AckType.POISON)
    await client.remove(consumer)


async def test_policies_apply_to_existing_destinations(configured: Configure) -> None:
    async with configured(policies=[{"destination": "q", "queue_prefetch": 7}]) as broker:
        client = await broker.client()
        await poisoned(client)
        assert broker.size(DLQ) == 1
        individual = {"type": "individual", "queue_prefix": "dead."}
        policy = {"destination": "q", "dead_letter_strategy": individual, "memory_limit": "1mb"}
        _, pending = await broker.update(
            policies=[{**policy, "prioritized_messages": True, "expire_messages_period": "1h"}]
        )
        assert pending == [
            "policies, prioritized_messages of queue://q: takes effect at the next start"
        ]
        await poisoned(client)
        assert broker.size(DLQ) == 1
        assert broker.size(Queue("dead.q")) == 1
        queue = broker.service.region_broker.region_destination(Q)
        assert queue.memory.limit == 1024 * 1024
        assert not queue.policy.prioritized_messages  # type: ignore[attr-defined]
        _, pending = await broker.update(policies=[policy])
        assert pending == []


async def test_what_an_operator_has_changed_stays_if_its_policy_stays(
    configured: Configure,
) -> None:
    same = {"destination": "q", "memory_limit": "2mb"}
    async with configured(policies=[same]) as broker:
        region = broker.service.region_broker
        queue, other = region.region_destination(Q), region.region_destination(Queue("other"))
        queue.memory.change_limit(5)
        await broker.update(policies=[same, {"destination": "other", "memory_limit": "3mb"}])
        assert (queue.memory.limit, other.memory.limit) == (5, 3 << 20)
        await broker.update(policies=[])
        assert (queue.memory.limit, other.memory.limit) == (0, 0)


async def test_virtual_destinations_apply_to_producers_that_exist(configured: Configure) -> None:
    async with configured() as broker:
        client = await broker.client()
        producer = await client.producer(Q)
        await client.request(client.text(producer, Q, "1"))
        composite = {
            "type": "composite_queue",
            "name": "q",
            "forward_only": False,
            "forward_to": [{"destination": "copy"}],
        }
        assert await broker.update(virtual_destinations=[composite]) == (
            ["virtual_destinations"],
            [],
        )
        await client.request(client.text(producer, Q, "2"))
        assert (broker.size(Q), broker.size(COPY)) == (2, 1)
        await broker.update(virtual_destinations=None)
        await client.request(client.text(producer, Q, "3"))
        assert (broker.size(Q), broker.size(COPY)) == (3, 1)


async def test_plug_ins_change_in_their_places(configured: Configure) -> None:
    def separated(by: str) -> list[dict[str, Any]]:
        separator = {"type": "destination_path_separator", "path_separator": by}
        return [separator, {"type": "discarding_dlq", "drop_only": "none"}, PLUGIN]

    async with configured(plugins=separated("/")) as broker:
        client = await broker.client()
        await client.send(Queue("a/b"), "x")
        assert broker.size(Queue("a.b")) == 1
        assert await broker.update(plugins=separated("|")) == (["plugins[0].path_separator"], [])
        await client.send(Queue("a|b"), "x")
        await client.send(Queue("a/b"), "x")
        assert (broker.size(Queue("a.b")), broker.size(Queue("a/b"))) == (2, 1)
        dropping = [separated("|")[0], {"type": "discarding_dlq"}, PLUGIN]
        assert await broker.update(plugins=dropping) == (["plugins[1].drop_only"], [])
        await poisoned(client)
        assert broker.size(DLQ) == 0
        await broker.update(plugins=separated("/"))  # the ones outside are still in the chain
        await client.send(Queue("a/b"), "x")
        assert broker.size(Queue("a.b")) == 3
        assert await broker.update(plugins=[PLUGIN]) == (
            [],
            ["plugins: another list of plug-ins takes effect at the next start"],
        )


async def test_limits_and_new_destinations(configured: Configure) -> None:
    async with configured(system_usage={"memory_limit": "64mb"}) as broker:
        applied, pending = await broker.update(
            system_usage={"memory_limit": "32mb", "send_fail_if_no_space": True},
            destinations=["made"],
        )
        usage = broker.service.system_usage
        assert (usage.memory.limit, usage.send_fail_if_no_space) == (32 << 20, True)
        assert Queue("made") in broker.service.region_broker.destinations()
        assert applied == [
            "system_usage.memory_limit",
            "system_usage.send_fail_if_no_space",
            "destinations",
        ]
        assert pending == []


async def test_what_needs_a_restart_is_named_once(
    configured: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    async with configured() as broker:
        for _ in range(2):
            assert await broker.update(advisory_support=False, scheduler_support=True) == (
                [],
                [
                    "advisory_support: takes effect at the next start",
                    "scheduler_support: takes effect at the next start",
                ],
            )
        assert caplog.text.count("are not applied: advisory_support") == 1
        assert await broker.update(advisory_support=True, scheduler_support=False) == ([], [])


async def test_connectors_are_opened_and_closed(configured: Configure) -> None:
    kept = {"uri": "tcp://127.0.0.1:0", "name": "kept"}
    async with configured(connectors=[kept]) as broker:
        url = broker.service.connect_uri
        new = {"uri": "tcp://127.0.0.1:0", "name": "new"}
        assert await broker.update(connectors=[kept, new]) == (["connectors"], [])
        first, second = broker.service.connectors
        assert first.connect_uri == url
        client = await broker.clients.client(url=second.connect_uri)
        taken = {"uri": url, "name": "taken"}
        applied, (problem,) = await broker.update(connectors=[kept, taken])
        assert applied == []
        assert "taken" in problem
        await client.lost()
        assert [each.name for each in broker.service.connectors] == ["kept"]
        assert await broker.update(connectors=[kept]) == (["connectors"], [])
        await broker.clients.client(url=url)


async def test_network_connectors_start_and_end(configured: Configure) -> None:
    kept = {"uri": "static:(vm://nobody?create=false)", "name": "kept"}
    changed = {**kept, "name": "changed"}
    async with configured(network_connectors=[kept, changed]) as broker:
        networks = broker.service.networks
        first, second = networks.connectors
        new = {**kept, "name": "new"}
        listed = [kept, {**changed, "network_ttl": 3}, new]
        applied, pending = await broker.update(network_connectors=listed)
        assert (applied != [], pending) == (True, [])
        assert networks.connectors[0] is first
        assert first.started and not second.started
        assert [each.name for each in networks.connectors] == ["kept", "changed", "new"]
        assert networks.connectors[1].attributes.network_ttl == 3
        assert all(each.started for each in networks.connectors)
        networks.add_unnamed(kept["uri"])
        applied, (problem,) = await broker.update(network_connectors=[kept, {**kept, "name": "NC"}])
        assert applied == []
        assert "two network connectors named 'NC'" in problem
        assert [each.name for each in networks.connectors] == ["kept", "NC"]
        assert (await broker.update(network_connectors=[])) == (["network_connectors"], [])
        assert [each.name for each in networks.connectors] == ["NC"]


async def test_an_invalid_file_changes_nothing(configured: Configure) -> None:
    async with configured(policies=[{"destination": "q", "memory_limit": "2mb"}]) as broker:
        queue = broker.service.region_broker.region_destination(Q)
        with pytest.raises(ConfigurationException, match="no_such_key"):
            await broker.update(policies=[], no_such_key=1)
        assert queue.memory.limit == 2 << 20


async def test_the_file_is_looked_at_every_check_period(
    configured: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    watching = [{**PLUGIN, "check_period": "10s"}]
    async with VirtualClock(autojump=False) as clock, configured(plugins=watching) as broker:

        async def after_a_look(condition: Callable[[], object], **changes: Any) -> None:
            broker.write(**changes)
            await clock.advance(10)
            await until_stored(condition)

        def has(name: str) -> Callable[[], bool]:
            return lambda: Queue(name) in broker.service.region_broker.destinations()

        await after_a_look(has("later"), destinations=["later"])
        refusal = "The changed configuration was not applied"
        await after_a_look(lambda: refusal in caplog.text, wrong=1)
        del broker.values["wrong"]
        await after_a_look(has("last"), destinations=["later", "last"], plugins=[PLUGIN])
        assert caplog.text.count(refusal) == 1, "not at each look"
        view = broker.service.updates
        assert view is not None
        assert view.check_period == 0


def test_a_broker_without_a_file_cannot_have_the_plug_in(tmp_path: Path) -> None:
    settings = load_broker_settings(None, environ={"PYJMS_BROKER__PERSISTENT": "false"})
    assert settings.source is None


async def test_an_operator_updates_over_management(configured: Configure) -> None:
    async with configured() as broker:
        (view,) = broker.service.management.find(
            f"*:type=Broker,brokerName={broker.service.broker_name},"
            "service=RuntimeConfiguration,name=Plugin"
        )
        assert (view.get("Url"), view.get("CheckPeriod")) == (str(broker.file), 0)
        assert (view.get("Modified"), view.get("Status")) == (None, "")
        broker.write(destinations=["new"], scheduler_support=True)
        status = "scheduler_support: takes effect at the next start"
        assert await view.invoke("updateNow") == status == view.get("Status")
        assert Queue("new") in broker.service.region_broker.destinations()
        assert str(view.get("Modified")).startswith("20")
        broker.write(wrong=1)
        with pytest.raises(ConfigurationException):
            await view.invoke("updateNow")
        assert "wrong" in str(view.get("Status"))


async def test_the_xml_of_activemq_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"

    def write(limit: str) -> None:
        entry = f'<policyEntry queue="q" memoryLimit="{limit}"/>'
        policies = f"<policyEntries>{entry}</policyEntries>"
        file.write_text(
            '<broker xmlns="http://activemq.apache.org/schema/core" brokerName="xml"'
            ' persistent="false">'
            f"<destinationPolicy><policyMap>{policies}</policyMap></destinationPolicy>"
            '<plugins><runtimeConfigurationPlugin checkPeriod="0"/></plugins></broker>',
            encoding="utf-8",
        )

    write("1mb")
    async with service_from_uri(f"xbean:{file}", {}) as service:
        queue = service.region_broker.region_destination(Q)
        write("2mb")
        assert service.updates is not None
        await service.updates.update()
        assert queue.memory.limit == 2 << 20


async def test_a_server_reads_its_file_again_on_sighup(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    values: dict[str, Any] = {
        "persistent": False,
        "connectors": [{"uri": "tcp://127.0.0.1:0", "name": "openwire"}],
        "plugins": [users("first"), PLUGIN],
    }
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    with broker_process("--config", str(file), cwd=tmp_path) as process:
        url = listening_at(process)
        assert process.stderr is not None
        values["plugins"][0] = users("second")
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        _signal_and_wait(process, "changes of the configuration are applied: plugins[0]")
        await exchange_message(url, "q", "second", "secret")
        file.write_text("no_such_key: 1", encoding="utf-8")
        _signal_and_wait(process, "SIGHUP: the changed configuration was not applied")
        await exchange_message(url, "q", "second", "secret")
        stopped(process)


def test_sighup_does_not_end_a_server_without_the_plug_in(tmp_path: Path) -> None:
    with broker_process("--ephemeral", "--openwire", "127.0.0.1:0", cwd=tmp_path) as process:
        listening_at(process)
        _signal_and_wait(process, "add the plug-in runtime_configuration")
        stopped(process)


def _signal_and_wait(process: ForkedPython, text: str) -> None:
    assert process.stderr is not None
    process.send_signal(signal.SIGHUP)
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"the log ended without {text!r}")
