"""The connector of a broker for clients in its process, open while the broker is running."""

from __future__ import annotations

import itertools

from pyjms.errors import ConnectionFailedException, ResourceAllocationException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.transport.base import Transport
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.connector.vm.bridge import FarEnd
from pyjms_broker.connector.vm.transport import VmTransport

_numbers = itertools.count()


def next_address(uri: str) -> str:
    """Return a unique remote address such as `vm://name#1`."""
    return f"{uri}#{next(_numbers)}"


def with_negotiator(end: VmTransport) -> Transport[Command]:
    """Put a WireFormatNegotiator around an end that sends bytes."""
    if end.wire_format is None:
        return end
    return WireFormatNegotiator(end, end.wire_format, timeout=None)


class VmConnector(TransportConnector):
    """Accepts clients in the broker's process, on the broker's event loop or another one."""

    @property
    def connect_uri(self) -> str:
        return f"vm://{self.host.broker_name}"

    async def start(self) -> None:
        self.stopping = False

    async def stop(self) -> None:
        self.stopping = True
        await self.stop_connections()

    def accept(self, client: VmTransport, settings: WireFormatSettings | None) -> BrokerConnection:
        """Connect `client` to the broker; with wire format settings, bytes are exchanged."""
        self._check_open()
        wire_format = None if settings is None else OpenWireFormat(settings)
        end = VmTransport(next_address(self.connect_uri), wire_format)
        end.peer, client.peer = client, end
        return serve(self, with_negotiator(end))

    def accept_far(
        self, client: VmTransport, loop: LoopHandle, settings: WireFormatSettings
    ) -> BrokerConnection:
        """Connect a client on another loop, `loop`. Call it on the broker's loop."""
        self._check_open()
        wire_format = OpenWireFormat(settings)
        end = VmTransport(next_address(self.connect_uri), wire_format)
        transport: Transport[Command] = end
        if client.wire_format is None:
            wire_format.negotiate(settings.info())
            theirs = OpenWireFormat(settings)
            theirs.negotiate(settings.info())
            client.encode_with(theirs)
        else:
            transport = with_negotiator(end)
        end.peer = FarEnd(client.inbox, loop, client.remote_address)
        client.peer = FarEnd(end.inbox, LoopHandle(), end.remote_address)
        end.peer.watch_own_loop()
        return serve(self, transport)

    def _check_open(self) -> None:
        if self.stopping:
            raise ConnectionFailedException(f"The broker of {self.connect_uri} is stopping")
        if len(self.connections) >= self.maximum_connections:
            raise ResourceAllocationException(
                f"{self.connect_uri} has its maximum of {self.maximum_connections} connections"
            )
