"""Java clients with `failover:` and several of our brokers: a network, and a shared store."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
import yaml

from pyjms_broker.connector.cluster import ClusterAttributes
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, network
from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_programs import JavaProgram
from tests.kit.stores.shared_store import free_ports, sharing_commands
from tests.kit.values import present
from tests.kit.waiting import until

__all__ = ["network"]

pytestmark = pytest.mark.activemq

OPTIONS = "initialReconnectDelay=20&maxReconnectDelay=100&useExponentialBackOff=false"
CLIENTS = 4
COUNT = 150
PROGRAM = Path(__file__).with_name("program")


def cluster_broker(network: Network, name: str) -> BrokerService:
    service = network.broker(name)
    door = service.add_connector("tcp://127.0.0.1:0")
    door.cluster.attributes = ClusterAttributes(
        update_cluster_clients=True,
        rebalance_cluster_clients=True,
        update_cluster_clients_on_remove=True,
    )
    return service


def clients_of(service: BrokerService) -> int:
    """Return the number of clients of the broker's port, without bridges."""
    (door,) = service.connectors
    return sum(not each.serves_broker for each in door.connections)  # type: ignore[attr-defined]


async def line_of(java: Any) -> str:
    """Return the program's next line."""
    return str(await anyio.to_thread.run_sync(java.stdout.readline)).strip()


async def exchange(java: Any, text: str) -> None:
    """Let each client send to the next one."""
    java.stdin.write(f"{text}\n")
    java.stdin.flush()
    assert await line_of(java) == f"got {text}"


@pytest.mark.timeout(120)
@pytest.mark.fact("activemq-edges NW10")
async def test_java_clients_spread_over_a_network_and_outlive_its_brokers(
    network: Network, java_program: JavaProgram, tmp_path: Path
) -> None:
    first, second = [cluster_broker(network, name) for name in "ab"]
    await network.start(second, first)
    url = f"failover:({first.connect_uri})?{OPTIONS}&randomize=false"
    log = tmp_path / "java.log"
    with started([*java_program(PROGRAM), "Cluster", url, str(CLIENTS)], log) as java:
        assert await line_of(java) == "connected", log.read_text(encoding="utf-8")
        assert (clients_of(first), clients_of(second)) == (CLIENTS, 0)
        second.add_network_connector(
            f"static:({first.connect_uri})",
            NetworkConnectorAttributes(name="join", duplex=True),
        ).start()
        # two go there, of which one comes back if it is there before that broker knows the bridge
        await until(
            lambda: clients_of(second) and clients_of(first) + clients_of(second) == CLIENTS
        )
        await exchange(java, "over the bridges")
        await first.stop()
        await until(lambda: clients_of(second) == CLIENTS)
        await exchange(java, "at the broker that is left")
        present(java.stdin).close()
        assert await anyio.to_thread.run_sync(java.wait) == 0, log.read_text(encoding="utf-8")


def wait_for(java: Any, line: str) -> None:
    for said in java.stdout:
        if said.strip() == line:
            return
    pytest.fail(f"the clients ended before {line!r}")


@pytest.mark.timeout(120)
def test_java_clients_live_through_kills_of_two_brokers_with_one_store(
    java_program: JavaProgram, tmp_path: Path
) -> None:
    """Each time the other broker, which waits for the store, takes over."""
    ports = free_ports()
    commands = sharing_commands(tmp_path, ports)
    url = f"failover:({','.join(f'tcp://127.0.0.1:{port}' for port in ports)})?{OPTIONS}"
    log = tmp_path / "java.log"
    with ExitStack() as stack:
        starts = iter(range(100))

        def start(index: int) -> tuple[Any, Path]:
            broker_log = tmp_path / f"broker-{index}-{next(starts)}.log"
            return stack.enter_context(started(commands[index], broker_log)), broker_log

        master = start(0)
        accepted_url(*master)
        slave = start(1)
        serving = 0
        command = [*java_program(PROGRAM), "Failover", url, str(COUNT)]
        java = stack.enter_context(started(command, log))
        for sent in ("sent 40", "sent 90"):
            wait_for(java, sent)
            master[0].kill()
            master[0].wait()
            accepted_url(*slave)  # before the other one is there again and may be the faster one
            master, slave = slave, start(serving)
            serving = 1 - serving
        found = json.loads(present(java.stdout).read().splitlines()[-1])
        assert java.wait() == 0, log.read_text(encoding="utf-8")
    everything = list(range(1, COUNT + 1))
    found["batches"] += found["in doubt"]
    for kind in ("plain", "batches", "durable"):
        assert sorted(set(found[kind])) == everything, kind
    assert sorted(found["plain"]) == everything  # what was sent again was recognized
    assert "Exception in thread" not in log.read_text(encoding="utf-8")


ROUNDS = 6


def joined_commands(folder: Path, ports: list[int]) -> list[list[str]]:
    """Return the commands of two brokers of a network, each with a store of its own.

    What was forwarded to a broker that clients then leave goes back (replay_when_no_consumers).
    """
    commands = []
    for port, other in zip(ports, reversed(ports), strict=True):
        path = folder / f"broker-{port}.yaml"
        door = {
            "uri": f"tcp://127.0.0.1:{port}",
            "update_cluster_clients": True,
            "rebalance_cluster_clients": True,
        }
        bridge = f"static:(tcp://127.0.0.1:{other})?initialReconnectDelay=100"
        replay = {"replay_when_no_consumers": True}
        settings = {
            "broker_name": f"b{port}",
            "data_directory": str(folder / f"data-{port}"),
            "connectors": [door],
            "network_connectors": [{"uri": f"{bridge}&useExponentialBackOff=false"}],
            "policies": [{"destination": ">", "network_bridge_filter_factory": replay}],
        }
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        commands.append([sys.executable, "-m", "pyjms_broker", "start", "--config", str(path)])
    return commands


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_java_clients_of_a_network_lose_nothing_when_its_brokers_are_killed(
    java_program: JavaProgram, tmp_path: Path
) -> None:
    ports = free_ports()
    commands = joined_commands(tmp_path, ports)
    url = f"failover:({','.join(f'tcp://127.0.0.1:{port}' for port in ports)})?{OPTIONS}"
    log = tmp_path / "java.log"
    with ExitStack() as stack:
        starts = iter(range(100))

        def start(index: int) -> Any:
            broker_log = tmp_path / f"broker-{index}-{next(starts)}.log"
            child = stack.enter_context(started(commands[index], broker_log))
            accepted_url(child, broker_log)
            return child

        brokers = [start(0), start(1)]
        command = [*java_program(PROGRAM), "Cluster", url, str(CLIENTS)]
        java = stack.enter_context(started(command, log))
        assert present(java.stdout).readline().strip() == "connected", log.read_text(
            encoding="utf-8"
        )
        for number in range(ROUNDS):
            killed = number % 2
            present(java.stdin).write(f"round {number}\n")
            present(java.stdin).flush()
            brokers[killed].kill()
            brokers[killed].wait()
            brokers[killed] = start(killed)
            assert present(java.stdout).readline().strip() == f"got round {number}", log.read_text(
                encoding="utf-8"
            )
        present(java.stdin).close()
        assert java.wait() == 0, log.read_text(encoding="utf-8")
