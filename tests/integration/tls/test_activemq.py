"""TLS with ActiveMQ 5.17.2: our client at its broker, and its client at ours."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
import trustme

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import JMSException
from pyjms.transport.uri import TransportURI
from tests.kit.processes.children import started
from tests.kit.servers.java_programs import JavaProgram
from tests.kit.tls import CertificateFiles, TlsBroker

pytestmark = pytest.mark.activemq

PROGRAM = Path(__file__).parent / "program"
PASSWORD = "changeit"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("activemq-tls"), trustme.CA())


def java_options(files: CertificateFiles, *, key: bool = True) -> list[str]:
    """Return the system properties for stores that Java's own tool and OpenSSL have made."""
    trust, store = files.directory / "java-trust.p12", files.directory / "java-key.p12"
    trust.unlink(missing_ok=True)
    run = partial(subprocess.run, check=True, capture_output=True)
    imported = f"keytool -importcert -noprompt -alias ca -file {files.trust} -keystore {trust}"
    run([*imported.split(), "-storetype", "PKCS12", "-storepass", PASSWORD])
    pem = files.issue("java.pem")
    run([*f"openssl pkcs12 -export -in {pem} -out {store} -passout".split(), f"pass:{PASSWORD}"])
    options = {"trustStore": trust, "trustStorePassword": PASSWORD}
    if key:
        options |= {"keyStore": store, "keyStorePassword": PASSWORD}
    return [f"-Djavax.net.ssl.{name}={value}" for name, value in options.items()]


@pytest.fixture(scope="session")
def ports(
    java_program: JavaProgram, shared: CertificateFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[int]]:
    """The ports of an ActiveMQ: TLS, TLS with client certificates, and without TLS."""
    java, *rest = java_program(PROGRAM)
    uris = [
        "ssl://127.0.0.1:0",
        "nio+ssl://127.0.0.1:0?needClientAuth=true",
        "tcp://127.0.0.1:0",
    ]
    log = tmp_path_factory.mktemp("activemq") / "log"
    command = [java, *java_options(shared), *rest, "TlsPeer", "broker", *uris]
    with started(command, log) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert "accepts connections at" in line, log.read_text(encoding="utf-8")
        yield [TransportURI.parse(uri).port or 0 for uri in line.split()[4:]]


async def exchange(url: str) -> object:
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=10)
    await template.convert_and_send("python", "from Python")
    return await template.receive_and_convert("python")


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
async def test_our_client_at_activemq(
    ports: list[int], shared: CertificateFiles, protocol: str
) -> None:
    trusting = f"ssl.trustStore={shared.trust}&socket.enabledProtocols={protocol}"
    assert await exchange(f"ssl://localhost:{ports[0]}?{trusting}") == "from Python"
    own = f"ssl.keyStore={shared.issue('client.pem', 'alice.example.org')}"
    assert await exchange(f"nio+ssl://localhost:{ports[1]}?{trusting}&{own}") == "from Python"


@pytest.mark.parametrize(
    ("scheme", "port", "reason"),
    [
        # with TLS 1.3 it resets the connection, which may overtake its alert; and where it does
        # not use TLS, it may close before it answers
        ("ssl", 1, "client certificate"),
        ("tcp", 0, "The peer expects TLS"),
        ("ssl", 2, "does not use TLS on this port|check that the port uses TLS"),
    ],
)
async def test_mistakes_at_activemq(
    ports: list[int], shared: CertificateFiles, scheme: str, port: int, reason: str
) -> None:
    url = f"{scheme}://localhost:{ports[port]}"
    with pytest.raises(JMSException) as caught:
        await exchange(f"{url}?ssl.trustStore={shared.trust}" if scheme == "ssl" else url)
    assert re.search(reason, str(caught.value))


@pytest.mark.parametrize("client_certificate", [False, True])
async def test_the_java_client_at_our_broker(
    java_program: JavaProgram,
    tls_broker: TlsBroker,
    files: CertificateFiles,
    client_certificate: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    java, *rest = java_program(PROGRAM)
    async with tls_broker(f"needClientAuth=true&ssl.trustStore={files.trust}") as (_, url):
        options = java_options(files, key=client_certificate)
        command = [java, *options, *rest, "TlsPeer", "client", url]
        run = partial(subprocess.run, command, capture_output=True, text=True, check=False)
        ended = await anyio.to_thread.run_sync(run)
    if client_certificate:
        assert ended.stdout.strip() == "from Java", ended.stderr
    else:
        assert "from Java" not in ended.stdout
        assert "the client sent no certificate" in caplog.text
