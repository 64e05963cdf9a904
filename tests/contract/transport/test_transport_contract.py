"""The shipped transport contract on every transport of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from pyjms.errors import ConnectionFailedException
from pyjms.testing.contract.transport import EndListener, TransportContract, TransportEnds
from pyjms.transport.base import Transport, TransportListener
from pyjms.transport.mock import MockTransport
from pyjms.transport.openwire import (
    OpenWireOptions,
    ResponseCorrelator,
    WireFormatNegotiator,
    accepted_transport,
)
from pyjms.transport.options import TcpOptions
from pyjms.transport.registry import create_transport
from pyjms.transport.tls import TlsOptions, accept_tls, shared_context
from pyjms.transport.websocket import OPENWIRE_SUBPROTOCOL, HandshakePolicy, accept_websocket
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms_broker.connector.vm.transport import VmTransport
from tests.kit.accepting import accept
from tests.kit.tls import CertificateFiles


class TestTcp(TransportContract):
    @pytest.fixture
    async def ends(self) -> AsyncIterator[TransportEnds]:
        multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with multi, anyio.create_task_group() as group:
            port = multi.extra(SocketAttribute.local_port)
            ends = TransportEnds(create_transport(f"tcp://127.0.0.1:{port}"))
            group.start_soon(ends.client.start)
            stream = await accept(multi)
            peer = accepted_transport(stream, TcpOptions(), OpenWireOptions())
            ends.peer = peer
            await peer.start()
        yield ends
        await ends.stop()


class TestFailover(TransportContract):
    @pytest.fixture
    async def ends(self) -> AsyncIterator[TransportEnds]:
        multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with multi, anyio.create_task_group() as group:
            port = multi.extra(SocketAttribute.local_port)
            url = f"failover:(tcp://127.0.0.1:{port})?maxReconnectAttempts=0"
            ends = TransportEnds(create_transport(url))
            group.start_soon(ends.client.start)
            stream = await accept(multi)
            peer = accepted_transport(stream, TcpOptions(), OpenWireOptions())
            ends.peer = peer
            await peer.start()
        yield ends
        await ends.stop()


class TestTls(TransportContract):
    @pytest.fixture
    async def ends(self, files: CertificateFiles) -> AsyncIterator[TransportEnds]:
        context = shared_context(TlsOptions(key_store=files.issue()), server_side=True)
        multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with multi, anyio.create_task_group() as group:
            port = multi.extra(SocketAttribute.local_port)
            url = f"ssl://localhost:{port}?ssl.trustStore={files.trust}"
            ends = TransportEnds(create_transport(url))
            group.start_soon(ends.client.start)
            stream = await accept(multi)
            peer = accepted_transport(stream, TcpOptions(), OpenWireOptions(), tls=context)
            ends.peer = peer
            await peer.start()
        yield ends
        await ends.stop()


class TestWebSocket(TransportContract):
    @pytest.fixture(params=["ws", "wss"])
    async def ends(
        self, request: pytest.FixtureRequest, files: CertificateFiles
    ) -> AsyncIterator[TransportEnds]:
        tls = None
        if request.param == "wss":
            tls = shared_context(TlsOptions(key_store=files.issue()), server_side=True)
        trust = "" if tls is None else f"?ssl.trustStore={files.trust}"
        multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with multi, anyio.create_task_group() as group:
            port = multi.extra(SocketAttribute.local_port)
            ends = TransportEnds(create_transport(f"{request.param}://localhost:{port}{trust}"))
            group.start_soon(ends.client.start)
            stream: ByteStream = await accept(multi)
            if tls is not None:
                stream = await accept_tls(stream, tls, "wss://localhost", None)
            policy = HandshakePolicy((OPENWIRE_SUBPROTOCOL,))
            stream = await accept_websocket(stream, policy, "ws://localhost", None)
            options = OpenWireOptions()
            peer = accepted_transport(stream, TcpOptions(), options, scheme=request.param)
            ends.peer = peer
            await peer.start()
        yield ends
        await ends.stop()


async def vm_ends(*, marshal: bool) -> TransportEnds:
    def end(name: str) -> VmTransport:
        return VmTransport(name, OpenWireFormat() if marshal else None)

    def negotiated(transport: VmTransport) -> Transport[Command]:
        if transport.wire_format is None:
            return transport
        return WireFormatNegotiator(transport, transport.wire_format, timeout=None)

    here, there = end("vm://b#1"), end("vm://b#2")
    here.peer, there.peer = there, here
    ends = TransportEnds(ResponseCorrelator(negotiated(here)))
    peer = negotiated(there)
    ends.peer = peer
    async with anyio.create_task_group() as group:
        group.start_soon(peer.start)
        group.start_soon(ends.client.start)
    return ends


class TestVm(TransportContract):
    @pytest.fixture
    async def ends(self) -> AsyncIterator[TransportEnds]:
        ends = await vm_ends(marshal=False)
        yield ends
        await ends.stop()


class TestMarshallingVm(TransportContract):
    @pytest.fixture
    async def ends(self) -> AsyncIterator[TransportEnds]:
        ends = await vm_ends(marshal=True)
        yield ends
        await ends.stop()


class MockPeer:
    """The far end of a MockTransport, in the shape of a transport."""

    def __init__(self, mock: MockTransport[Command]) -> None:
        self.listener: TransportListener[Command] = EndListener()
        self.oneway = mock.deliver
        self._mock = mock
        mock.respond = self._record

    def _record(self, command: Command) -> Iterable[Command]:
        self.listener.on_command(command)
        return ()

    async def stop(self) -> None:
        if not self._mock.stopped:
            self._mock.fail(ConnectionFailedException("the peer stopped"))


class TestMock(TransportContract):
    @pytest.fixture
    async def ends(self) -> AsyncIterator[TransportEnds]:
        mock: MockTransport[Command] = MockTransport("contract")
        ends = TransportEnds(ResponseCorrelator(mock))
        ends.peer = MockPeer(mock)
        await ends.client.start()
        yield ends
        await ends.client.stop()
