"""The client's end of `vm://name`: finds the broker of that name, or has one created.

A broker that does not run is created for its first client, and stops with its last one.
(activemq-broker B14, B15)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio

from pyjms._logger import get_logger
from pyjms.errors import ConnectionFailedException
from pyjms.transport.openwire import RequestTransport, ResponseCorrelator
from pyjms.transport.openwire.options import wire_format_settings as read_wire_format
from pyjms.transport.options import (
    IGNORED_BY_CLIENTS,
    Options,
    boolean,
    check_known,
    integer,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create
from pyjms.wire.openwire.format import OpenWireFormat, WireFormatSettings
from pyjms_broker.connector.base import ServedConnection
from pyjms_broker.connector.vm import registry
from pyjms_broker.connector.vm.registry import Registration
from pyjms_broker.connector.vm.transport import VmTransport, negotiated, next_address

__all__ = ["IGNORED", "OPTIONS", "VmClientTransport", "vm_transport"]

logger = get_logger(__name__)

OPTIONS: Options = {
    "create": ("create", boolean),
    "waitForStart": ("wait_for_start", integer),
    "brokerConfig": ("broker_config", str),
    "marshal": ("marshal", boolean),
}
IGNORED: Mapping[str, str] = {"async": "commands are handed over without threads"}
"""ActiveMQ's options of `vm://` without an effect here, and why."""
_NOT_MARSHALLED = "commands are encoded only with marshal=true"


@dataclass(frozen=True)
class VmOptions:
    """The options of a `vm://` URL."""

    create: bool = True
    wait_for_start: int = -1
    """Milliseconds to wait for a broker of that name to start."""
    broker_config: str | None = None
    marshal: bool = False


class VmClientTransport(VmTransport):
    """The client's end: `start` finds or creates the broker, and `stop` may stop it."""

    def __init__(
        self,
        name: str,
        options: VmOptions,
        broker_options: Mapping[str, str],
        settings: WireFormatSettings | None,
    ) -> None:
        super().__init__(
            next_address(f"vm://{name}"), None if settings is None else OpenWireFormat(settings)
        )
        self._name = name
        self._options = options
        self._broker_options = broker_options
        self._settings = settings
        self._registration: Registration | None = None
        self._connection: ServedConnection | None = None

    async def start(self) -> None:
        registration = self._registration = await self._find_broker()
        self._log_without_effect(registration)
        try:
            self._connection = registration.connector.accept(self, self._settings)
        except Exception:
            await self._leave(registration)
            raise
        await super().start()

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            registration, self._registration = self._registration, None
            if registration is not None:
                with anyio.CancelScope(shield=True):
                    await self._leave(registration)

    async def _find_broker(self) -> Registration:
        registration = registry.find(self._name)
        if registration is None and self._options.wait_for_start > 0:
            seconds = self._options.wait_for_start / 1000
            registration = await registry.wait_for(self._name, seconds)
        if registration is not None:
            return registration
        if not self._options.create:
            raise ConnectionFailedException(
                f"Could not connect to broker URL: vm://{self._name}. "
                f"Reason: Broker named '{self._name}' does not exist."
            )
        return await registry.create(self._name, self._broker_options, self._options.broker_config)

    def _log_without_effect(self, registration: Registration) -> None:
        """Log options for a broker that was created without them, once a broker."""
        given = registry.url_options(self._broker_options, self._options.broker_config)
        unused = given - registration.url_options - registration.logged
        registration.logged |= unused
        if unused:
            logger.info(
                "vm://%s: accepted without effect, since this broker runs already: %s",
                self._name,
                ", ".join(sorted(name for name, _ in unused)),
            )

    async def _leave(self, registration: Registration) -> None:
        """Wait for the broker's end to close; stop a created broker with its last client."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.wait_stopped()
        if registration.auto_created and not registration.connector.connections:
            registration.auto_created = False  # only one of several last clients stops it
            await registration.host.stop()


def vm_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `vm://name?options`, not started.

    Raises:
        ConfigurationException: an option is unknown or has a bad value.
    """
    broker_options, rest = uri.split_options("broker.")
    if broker_options:
        registry.check_options(broker_options)
    wire, rest = rest.split_options("wireFormat.")
    options = VmOptions(**read_options(rest.options, OPTIONS))
    encoded = {} if options.marshal else {f"wireFormat.{n}": _NOT_MARSHALLED for n in wire}
    known = replace(rest, options={**rest.options, **encoded})
    check_known(known, set(OPTIONS), ignored={**IGNORED_BY_CLIENTS, **IGNORED, **encoded})
    settings = read_wire_format(wire, None)
    name = rest.location.strip("/")
    config = options.broker_config
    if rest.components:  # vm:(broker:(...)/name?...)
        config = str(rest.components[0])
        name = rest.components[0].path.strip("/")
    if not name and config is None:
        raise could_not_create(f"{uri} names no broker", hint="write vm://localhost")
    end = VmClientTransport(
        name or "localhost",
        VmOptions(options.create, options.wait_for_start, config, options.marshal),
        broker_options,
        settings if options.marshal else None,
    )
    return ResponseCorrelator(negotiated(end))
