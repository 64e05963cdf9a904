"""Apache Qpid JMS, a JMS client of AMQP 1.0, and JORAM's conformance tests of JMS through it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.kit.amqp.client import StartAmqp
from tests.kit.servers.java_programs import JavaProgram

PROGRAM = Path(__file__).resolve().parent / "qpid_program"
SETTINGS = {
    "provider.properties": "jms.provider.admin.class=QpidAdmin\n",
    "test.properties": "timeout=10000\n",
}


@pytest.fixture
def qpid(maven_program: JavaProgram, tmp_path: Path) -> list[str]:
    """The start of the command that runs a program, with the settings of the tests."""
    for name, text in SETTINGS.items():
        (tmp_path / name).write_text(text)
    *start, class_path = maven_program(PROGRAM)
    return [*start, f"{tmp_path}:{class_path}"]


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.fact("amqp-connector A151")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("transformer", ["jms", "native"])
async def test_jms_conformance(amqp_broker: StartAmqp, qpid: list[str], transformer: str) -> None:
    async with amqp_broker(f"?transport.transformer={transformer}") as amqp:
        url = f"amqp://127.0.0.1:{amqp.port}"
        done = await anyio.run_process([*qpid, "Conformance", url], stderr=subprocess.STDOUT)
    assert done.stdout.decode().splitlines()[-1:] == ["196 run, 0 failed"], done.stdout.decode()


@pytest.mark.activemq
@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("commit", {"before": None, "after": ["1#1", "2#1", "3#1"], "taken": ["4#1", "5#1"], "left": []}),
        ("send-rollback", ["once#1"]),
        ("close-in-transaction", {"first": ["1#1"], "left": ["1#2*", "2#2*"]}),
        ("client-ack", {"third": ["3#1"], "left": ["3#2*", "4#2*"]}),
        ("request-reply", [["re: 1", True], ["re: 2", True], ["re: 3", True]]),
        ("selectors", [["2", "4"], ["9"], ["1"], ["7", "8"], None, ["0#1", "3#1", "5#1", "6#1"]]),
        ("browse", {"all": [*"01234"], "some": ["3", "4"], "left": [f"{i}#1" for i in range(5)]}),
        ("dups-ok", {"queue": 19, "topic": 19, "left": []}),
    ],
)  # fmt: skip
async def test_programs_of_the_java_client(
    amqp_broker: StartAmqp,
    qpid: list[str],
    java_command: list[str],
    scenario: str,
    expected: object,
) -> None:
    """The programs that ActiveMQ's client runs elsewhere: as with ActiveMQ 5.17.6 by AMQP."""
    java, program = [*java_command], f"{qpid[-1]}:{java_command[-2]}"
    java[-2:] = [program, "Probe"]
    async with amqp_broker() as amqp:
        url = f"amqp://127.0.0.1:{amqp.port}"
        done = await anyio.run_process([*java, scenario, url, "programs"], check=False)
    assert json.loads(done.stdout.decode().splitlines()[-1]) == {"value": expected}


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.fact("amqp-connector A2", "amqp-connector A70", "amqp-connector A84")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("amqp", "jms.forceAsyncSend=true"),
        ("amqp", "jms.presettlePolicy.presettleAll=true"),
        ("amqp", "jms.prefetchPolicy.all=0"),
        ("ws", "jms.forceAsyncSend=true"),
    ],
    ids=["unsettled", "settled", "pulls", "websocket"],
)
async def test_many_messages_arrive(
    amqp_broker: StartAmqp, qpid: list[str], scheme: str, options: str
) -> None:
    connector = "?transport.transformer=jms"
    async with amqp_broker(connector, scheme) as amqp:
        url = f"{'amqpws' if scheme == 'ws' else scheme}://127.0.0.1:{amqp.port}?{options}"
        done = await anyio.run_process([*qpid, "Speed", url, "2000", "2", "false"])
    rates = done.stdout.decode().split()
    print(f"{options}: {rates} messages a second")
    assert len(rates) == 2
