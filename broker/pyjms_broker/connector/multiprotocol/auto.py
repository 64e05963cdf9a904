"""One port for OpenWire and STOMP: `auto://host:port?options`, and with TLS: `auto+ssl://`.

The first bytes determine the client's protocol; it has `protocolDetectionTimeOut` (ms, 30000) to
send them. `auto.protocols=default,stomp` restricts the protocols; `auto.stomp.x` is an option of
STOMP.
(activemq-edges U5)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from anyio.abc import ByteStream

from pyjms.errors import ConfigurationException, RemoteProtocolError
from pyjms.transport.base import Transport
from pyjms.transport.options import milliseconds
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.multiprotocol.connector import MultiProtocolConnector
from pyjms_broker.connector.multiprotocol.detection import OPENWIRE, STOMP, detect

__all__ = ["AutoConnector"]

_TIMEOUT: Final = "protocolDetectionTimeOut"
_PROTOCOLS: Final = "auto.protocols"
_STOMP_PREFIX: Final = "auto.stomp."
_NAMES: Final = {"default": OPENWIRE, OPENWIRE: OPENWIRE, STOMP: STOMP}


class AutoConnector(MultiProtocolConnector):
    """Listens for clients, and detects their protocol."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options for detection, and those of the protocols.

        Raises:
            ConfigurationException: an option is unknown or invalid, or a protocol is unsupported.
        """
        options = dict(uri.options)
        self._protocols = _protocols(uri, options.pop(_PROTOCOLS, "default,stomp"))
        try:
            self._timeout = milliseconds(options.pop(_TIMEOUT, "30000"))
        except ValueError as error:
            raise ConfigurationException(f"Option {_TIMEOUT} of {uri}: {error}") from error
        for option in [option for option in options if option.startswith(_STOMP_PREFIX)]:
            options[f"transport.{option.removeprefix(_STOMP_PREFIX)}"] = options.pop(option)
        super().__init__(host, replace(uri, options=options), name)

    async def choose(self, stream: ByteStream, remote: str) -> Transport[Command]:
        protocol, stream = await detect(stream, remote, self._timeout)
        if protocol not in self._protocols:
            raise RemoteProtocolError(
                f"The client speaks {protocol}, which {_PROTOCOLS} does not allow"
            )
        return self.transport_of(protocol, stream)


def _protocols(uri: TransportURI, text: str) -> frozenset[str]:
    named = {name.strip().lower() for name in text.split(",")}
    unknown = named - _NAMES.keys()
    if unknown:
        raise ConfigurationException(
            f"Connector {uri}: this broker cannot detect {min(unknown)}",
            hint=f"{_PROTOCOLS} can have {', '.join(_NAMES)}",
        )
    return frozenset(_NAMES[name] for name in named)
