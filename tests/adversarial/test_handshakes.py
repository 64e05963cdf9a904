"""Peers that misuse the TLS handshake: it is bounded, and other clients do not wait for it."""

from __future__ import annotations

import contextlib
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from pyjms.aio import ConnectionFactory
from pyjms.errors import JMSException
from pyjms.transport.tls import TlsOptions, accept_tls, shared_context
from pyjms.transport.tls.handshake import MAXIMUM_HANDSHAKE
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.tls import CertificateFiles, TlsBroker
from tests.kit.waiting import until


def client_hello(host: str = "localhost") -> bytes:
    """Return the first bytes of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=host).do_handshake()
    return outgoing.read()


HELLO = client_hello()
RECORD = b"\x16\x03\x01"


async def closed(stream: SocketStream, seconds: float = 60) -> bytes:
    """Read until the broker closes the connection; return its output."""
    said = b""
    with (
        anyio.fail_after(seconds),
        contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError),
    ):
        while True:
            said += await stream.receive()
    await stream.aclose()
    return said


class Port:
    """A connector with TLS, its clients and its attackers."""

    def __init__(self, broker: EmbeddedTestBroker, url: str, files: CertificateFiles) -> None:
        self.connector = broker.service.connectors[0]
        self.url = f"{url}?ssl.trustStore={files.trust}"
        self.number = int(url.rpartition(":")[2])

    async def attack(self, data: bytes) -> SocketStream:
        stream = await anyio.connect_tcp("127.0.0.1", self.number)
        with contextlib.suppress(anyio.BrokenResourceError):
            await stream.send(data)
        return stream

    async def serves(self) -> None:
        """Check that a client is served, and that nothing is left of anybody."""
        async with await ConnectionFactory(self.url).create_connection() as connection:
            await connection.start()

    async def clean(self) -> None:
        await self.serves()
        await until(lambda: not self.connector.connections)


@pytest.fixture
async def port(tls_broker: TlsBroker, files: CertificateFiles) -> AsyncIterator[Port]:
    async with tls_broker() as (broker, url):
        yield Port(broker, url, files)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x10\1ActiveMQ\0\0\0\x0c\0\0\0",
        bytes(5000),
        b"\xff" * 5000,
        RECORD + b"\xff\xff" + bytes(70000),
        RECORD + b"\x40\x00\x01\xff\xff\xff" + bytes(0x4000 - 4),
        RECORD + b"\x00\x04\x02\x00\x00\x00",
        b"\x15\x03\x01\x00\x02\x02\x00",
        b"\x17\x03\x03\x00\x10" + bytes(16),
    ],
)
async def test_what_is_not_a_handshake_ends_the_connection(port: Port, data: bytes) -> None:
    attacker = await port.attack(data)
    await closed(attacker)
    await port.clean()


async def test_half_a_hello_that_goes_away_leaves_nothing(port: Port) -> None:
    for cut in range(1, len(HELLO), 37):
        attacker = await port.attack(HELLO[:cut])
        await attacker.aclose()
    await port.clean()


async def test_changed_bytes_of_a_hello_end_the_connection(port: Port) -> None:
    for position in range(0, len(HELLO), 29):
        changed = bytearray(HELLO)
        changed[position] ^= 0xFF
        attacker = await port.attack(bytes(changed))
        await attacker.send_eof()
        await closed(attacker)
    await port.clean()


async def test_half_a_client_hello_delays_no_other_client_and_is_ended(
    tls_broker: TlsBroker, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with tls_broker("transport.connectAttemptTimeout=1500") as (broker, url):
        port = Port(broker, url, files)
        attackers = [await port.attack(HELLO[:100]) for _ in range(20)]
        await until(lambda: len(port.connector.connections) == 20)
        await port.serves()
        for attacker in attackers:
            await closed(attacker)
        await port.clean()
    assert caplog.text.count("the TLS handshake was not complete within 1.5 s") == 20


async def test_a_handshake_without_an_end_is_bounded(port: Port) -> None:
    """Handshake messages of zero length, as many as the peer likes."""
    attacker = await port.attack(HELLO)
    sent = 0
    with contextlib.suppress(anyio.BrokenResourceError):
        while sent < 4 * MAXIMUM_HANDSHAKE:
            await attacker.send(b"\x14\x03\x03\x00\x01\x01" * 100)
            sent += 600
    await closed(attacker)
    await port.clean()


async def test_connections_in_their_handshake_count(
    tls_broker: TlsBroker, files: CertificateFiles
) -> None:
    async with tls_broker("maximumConnections=3") as (broker, url):
        port = Port(broker, url, files)
        attackers = [await port.attack(HELLO[:50]) for _ in range(3)]
        await until(lambda: len(port.connector.connections) == 3)
        await closed(await port.attack(HELLO))
        for attacker in attackers:
            await attacker.aclose()
        await until(lambda: not port.connector.connections)
        await port.clean()


async def test_a_broker_stops_with_handshakes_under_way(
    tls_broker: TlsBroker, files: CertificateFiles
) -> None:
    async with tls_broker() as (broker, url):
        port = Port(broker, url, files)
        attacker = await port.attack(HELLO[:100])
        await until(lambda: port.connector.connections)
    await closed(attacker)


async def test_garbage_after_the_handshake_ends_the_connection(
    port: Port, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    context = ssl.create_default_context(cafile=files.trust)
    raw = await anyio.connect_tcp("127.0.0.1", port.number)
    await TLSStream.wrap(raw, hostname="localhost", ssl_context=context)
    await raw.send(b"\x17\x03\x03\x00\x40" + bytes(64))
    await closed(raw)
    await port.clean()
    assert caplog.text.count("could not connect: TLS: ") == 1


async def test_renegotiation_is_refused(files: CertificateFiles) -> None:
    """A broker's own end, which says nothing: data between would end s_client's attempt, too."""
    options = TlsOptions(key_store=files.issue(), enabled_protocols=("TLSv1.2",))
    context = shared_context(options, server_side=True)
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    number = multi.extra(SocketAttribute.local_port)

    async def serve() -> None:
        listener: Any = multi.listeners[0]
        raw = await listener.accept()
        stream = await accept_tls(raw, context, "ssl://attacker", 60)
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, JMSException):
            await stream.receive()
        await stream.aclose()

    async with multi, anyio.create_task_group() as group:
        group.start_soon(serve)
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{number}", "-tls1_2"]
        ended = await anyio.run_process(
            command, input=b"R\n", stderr=subprocess.STDOUT, check=False
        )
    assert b"RENEGOTIATING" in ended.stdout
    assert b"no renegotiation" in ended.stdout


async def test_bytes_after_the_end_of_tls_are_not_read(port: Port, files: CertificateFiles) -> None:
    context = ssl.create_default_context(cafile=files.trust)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    attacker = await port.attack(b"")
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            await attacker.send(outgoing.read())
            incoming.write(await attacker.receive())
        else:
            break
    with contextlib.suppress(ssl.SSLError):
        tls.unwrap()
    await attacker.send(outgoing.read() + bytes(1000))
    await closed(attacker, seconds=20)  # before the 30 s that a negotiation may take
    await port.clean()
