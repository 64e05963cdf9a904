"""What a broker starts without: modules that it imports only once it needs them.

Start-up is import time for the most part. A module that appears here is imported again by something
at the head of another module: import it there in the function that needs it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

PROGRAM = """
import sys
before = set(sys.modules)  # a measurement of coverage has its own
import anyio, json, tempfile
from pyjms_broker import BrokerService

def added():
    return sorted(set(sys.modules) - before)

loaded = {"importing BrokerService": added()}

async def main():
    async with BrokerService("x", persistent=False):
        loaded["a broker in memory"] = added()
    with tempfile.TemporaryDirectory() as directory:
        service = BrokerService("y", data_directory=directory)
        service.add_connector("tcp://127.0.0.1:0")
        async with service:
            loaded["a broker with KahaDB and TCP"] = added()

anyio.run(main)
print(json.dumps(loaded))
"""
NEVER = """
    difflib email importlib.metadata jinja2 lark platform prometheus_client pydantic sqlalchemy
    starlette tenacity xml yaml

    pyjms.configuration pyjms.client pyjms.selector.compiler pyjms.selector.parser pyjms.settings
    pyjms.transport.tls pyjms.transport.websocket pyjms.wire.stomp

    pyjms_broker.connector.multiprotocol pyjms_broker.connector.stomp
    pyjms_broker.connector.vm.client pyjms_broker.connector.vm.connector pyjms_broker.console
    pyjms_broker.conversion pyjms_broker.management pyjms_broker.network.attributes
    pyjms_broker.network.bridge pyjms_broker.network.connector pyjms_broker.network.duplex
    pyjms_broker.plugins pyjms_broker.policy.network_bridges pyjms_broker.policy.slow_consumers
    pyjms_broker.filters.ranges.requests pyjms_broker.filters.scheduler.filter pyjms_broker.security
    pyjms_broker.service.factories pyjms_broker.settings pyjms_broker.store.jdbc
    pyjms_broker.store.jobs.kahadb pyjms_broker.store.multi pyjms_broker.filters.composite_queues
    pyjms_broker.web
""".split()  # noqa: SIM905 - to be read
WITHOUT_CONNECTOR = ["pyjms.transport.openwire", "pyjms_broker.connector.openwire"]
WITHOUT_STORE = """
    sqlite3 pyjms.wire.kahadb.commands pyjms_broker.store.journal pyjms_broker.store.kahadb
    pyjms_broker.store.temp
""".split()  # noqa: SIM905 - to be read
IDLE_PROCESS = """
    http logging.handlers sqlite3 yaml

    pyjms.client pyjms.configuration.encryption pyjms.configuration.logs
    pyjms.configuration.section pyjms.jms.conversions pyjms.jms.message pyjms.listener
    pyjms.selector.parser pyjms.settings pyjms.transport.tls pyjms.wire.amqp pyjms.wire.mqtt
    pyjms.wire.stomp

    pyjms_broker.cli.config pyjms_broker.cli.doctor pyjms_broker.cli.journal
    pyjms_broker.cli.management pyjms_broker.cli.messages pyjms_broker.cli.transfer
    pyjms_broker.connector.amqp pyjms_broker.connector.mqtt.sessions pyjms_broker.connector.stomp
    pyjms_broker.connector.vm.client pyjms_broker.conversion pyjms_broker.management
    pyjms_broker.network.bridge pyjms_broker.security pyjms_broker.service.factories pyjms_broker.settings
    pyjms_broker.store.journal pyjms_broker.store.kahadb pyjms_broker.web
""".split()  # noqa: SIM905 - to be read
"""What `pyjms broker start --ephemeral` has no use for before a client needs it: it costs memory."""
PROCESS = """
import atexit, json, sys
before = set(sys.modules)
from pyjms.cli.main import main
atexit.register(lambda: print(json.dumps(sorted(set(sys.modules) - before)), flush=True))
sys.argv[1:] = ["broker", "start", "--ephemeral", "--openwire", "127.0.0.1:0"]
main()
"""
WITHOUT = {
    "importing BrokerService": [*NEVER, *WITHOUT_CONNECTOR, *WITHOUT_STORE],
    "a broker in memory": [*NEVER, *WITHOUT_CONNECTOR, *WITHOUT_STORE],
    "a broker with KahaDB and TCP": NEVER,
}


def test_a_broker_starts_without_what_it_does_not_use() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {stage: set(modules) for stage, modules in json.loads(done.stdout).items()}
    superfluous = {
        stage: sorted(loaded[stage].intersection(unused)) for stage, unused in WITHOUT.items()
    }
    assert superfluous == {stage: [] for stage in WITHOUT}


def test_the_process_of_an_idle_broker_has_only_what_it_uses() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if "in memory only" in line), "")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert ready, errors
    assert sorted(set(json.loads(output)).intersection(IDLE_PROCESS)) == []
