"""A real ActiveMQ 5.17.2 from Debian's jars, one for all tests of this folder; absent: skipped.

`PYJMS_ACTIVEMQ_URL` names a running broker instead.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory

JAVA = Path("/usr/share/java")
JARS = """activemq-client activemq-broker activemq-console activemq-openwire-legacy
geronimo-jms_1.1_spec geronimo-j2ee-management-1.1-spec geronimo-jta-1.2-spec hawtbuf slf4j-api
slf4j-simple activemq-protobuf activemq-jaas commons-logging jackson-core jackson-databind
jackson-annotations""".split()
READY = b"Connector"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def activemq_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("PYJMS_ACTIVEMQ_URL")
    if given:
        yield given
        return
    java = shutil.which("java")
    missing = [jar for jar in JARS if not (JAVA / f"{jar}.jar").exists()]
    if java is None or missing:
        pytest.skip(f"no java, or no jars in {JAVA}: {', '.join(missing) or 'java'}")
    port = free_port()
    uri = f"broker:(tcp://127.0.0.1:{port})/pyjms-test?persistent=false&useJmx=false"
    process = subprocess.Popen(
        [
            java,
            "-Xmx256m",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            ":".join(str(JAVA / f"{jar}.jar") for jar in JARS),
            "org.apache.activemq.console.command.ShellCommand",
            "start",
            uri,
        ],
        cwd=tmp_path_factory.mktemp("activemq"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    log: list[bytes] = []
    try:
        for line in process.stderr:
            log.append(line)
            if b"Connector" in line and b"started" in line:
                break
        else:
            pytest.fail("ActiveMQ did not start:\n" + b"".join(log).decode(errors="replace"))
        # What it still logs must not fill the pipe.
        drain = subprocess.Popen(
            ["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        yield f"tcp://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
    drain.wait(30)
    process.stderr.close()


@pytest.fixture
async def connect(activemq_url: str) -> AsyncIterator[Any]:
    opened: list[ActiveMQConnection] = []

    async def make(*, start: bool = True, **options: Any) -> ActiveMQConnection:
        connection = await ConnectionFactory(activemq_url, **options).create_connection()
        opened.append(connection)
        connection.redelivery_policy.initial_redelivery_delay = 0.01
        connection.redelivery_policy.redelivery_delay = 0.01
        if start:
            await connection.start()
        return connection

    yield make
    for connection in opened:
        await connection.close()


@pytest.fixture
def name(request: pytest.FixtureRequest, anyio_backend: str) -> str:
    """A destination name of this test's own."""
    return f"{request.function.__name__}.{anyio_backend}"
