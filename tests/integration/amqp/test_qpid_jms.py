"""Apache Qpid JMS, a JMS client of AMQP 1.0, and JORAM's conformance tests of JMS through it."""

from __future__ import annotations

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
