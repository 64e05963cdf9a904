"""The client's end of `vm://name`, which finds the broker of that name or creates one.

A broker that is not running is created for its first client, on that client's event loop, and stops
with its last client. Clients on other loops of the process reach it over a bridge.
(activemq-broker B14, B15)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
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
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.connector.base import ServedConnection
from pyjms_broker.connector.vm import registry
from pyjms_broker.connector.vm.bridge import FarEnd, run_on
from pyjms_broker.connector.vm.connector import next_address, with_negotiator
from pyjms_broker.connector.vm.registry import Registration
from pyjms_broker.connector.vm.transport import VmTransport

logger = get_logger(__name__)

OPTIONS: Options = {
    "create": ("create", boolean),
    "waitForStart": ("wait_for_start", integer),
    "brokerConfig": ("broker_config", str),
    "marshal": ("marshal", boolean),
    "network": ("network", boolean),
}
IGNORED: Mapping[str, str] = {"async": "commands are handed over without threads"}
"""ActiveMQ's options of `vm://` that have no effect, with the reason."""
_NOT_MARSHALLED = "commands are encoded only with marshal=true"


@dataclass(frozen=True)
class VmOptions:
    """The options of a `vm://` URL."""

    create: bool = True
    wait_for_start: int = -1
    """Milliseconds to wait for a broker of that name to start."""
    broker_config: str | None = field(default=None, repr=False)
    marshal: bool = False
    network: bool = False
    """Whether it is a network bridge's; these do not keep a created broker running."""


class VmClientTransport(VmTransport):
    """The client's end: `start` finds or creates the broker, `stop` may stop it."""

    def __init__(
        self,
        name: str,
        options: VmOptions,
        broker_options: Mapping[str, str],
        settings: WireFormatSettings,
    ) -> None:
        super().__init__(
            next_address(f"vm://{name}"), OpenWireFormat(settings) if options.marshal else None
        )
        self._name = name
        self._options = options
        self._broker_options = broker_options
        self._settings = settings
        self._registration: Registration | None = None
        self._connection: ServedConnection | None = None
        self._has_left = False
        """Whether the client has disconnected; accessed on the broker's loop only."""

    async def start(self) -> None:
        registration = self._registration = await self._find_broker()
        self._log_without_effect(registration)
        try:
            if registration.loop.is_current():
                settings = self._settings if self._options.marshal else None
                connection = registration.connector.accept(self, settings)
                self._connection = connection
                if self._options.network:
                    connection.is_own_bridge = True
                    registration.bridges.add(connection)
            else:
                await self._connect_far(registration)
        except BaseException:
            self._registration = None
            with anyio.CancelScope(shield=True):
                await self._leave(registration)
            raise
        await super().start()

    async def _connect_far(self, registration: Registration) -> None:
        """Connect to a broker on another loop."""
        own = LoopHandle()

        async def accept() -> None:
            if not self._has_left:  # a cancelled start may disconnect before this is called
                self._connection = registration.connector.accept_far(self, own, self._settings)

        await run_on(registration.loop, accept)
        assert isinstance(self.peer, FarEnd)
        self.peer.watch_own_loop()

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
        """Log, once per broker, options that have no effect because the broker is running."""
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
        """Disconnect on the broker's loop, without waiting for an ended or blocked loop."""
        if registration.loop.is_current():
            await self._leave_on_loop(registration)
            return
        leave = partial(self._leave_on_loop, registration)
        try:
            await run_on(registration.loop, leave, must_answer=True)
        except ConnectionFailedException as error:
            logger.debug("Disconnecting from %s: %s", self.remote_address, error)

    async def _leave_on_loop(self, registration: Registration) -> None:
        """Wait for the broker's end to close; stop a created broker with its last client."""
        self._has_left = True
        connection, self._connection = self._connection, None
        if connection is not None:
            assert self.peer is not None
            self.peer.inbox.end(
                ConnectionFailedException(f"{self.remote_address} has disconnected")
            )
            await connection.wait_stopped()
        registration.bridges.discard(connection)
        if self._options.network:
            return
        if registration.auto_created and registration.connector.connections <= registration.bridges:
            registration.auto_created = False  # only one of several last clients stops it
            await registration.host.stop()


def vm_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `vm://name?options` that is not started."""
    broker_options, rest = uri.split_options("broker.")
    if broker_options:
        registry.check_options(broker_options)
    wire, rest = rest.split_options("wireFormat.")
    options = VmOptions(**read_options(rest.options, OPTIONS))
    encoded = {} if options.marshal else {f"wireFormat.{n}": _NOT_MARSHALLED for n in wire}
    known = replace(rest, options={**rest.options, **encoded})
    _refuse_broker_options(rest.options)
    check_known(known, set(OPTIONS), ignored={**IGNORED_BY_CLIENTS, **IGNORED, **encoded})
    settings = read_wire_format(wire, None)
    name = rest.location.strip("/")
    config = options.broker_config
    if rest.components:  # vm:(broker:(...)/name?...)
        broker = rest.components[0]
        config = broker.with_secrets()
        name = broker.path.strip("/") or broker.options.get("brokerName", "")
    if not name and config is None:
        raise could_not_create(f"{uri} names no broker", hint="write vm://localhost")
    end = VmClientTransport(
        name or "localhost", replace(options, broker_config=config), broker_options, settings
    )
    return ResponseCorrelator(with_negotiator(end))


def _refuse_broker_options(options: Mapping[str, str]) -> None:
    """Refuse options that are the broker's, with the name by which they are accepted."""
    for name in options.keys() - OPTIONS.keys() - IGNORED.keys():
        if registry.is_option(name, options[name]):
            raise could_not_create(
                f"{name} is an option of the broker, not of vm://",
                hint=f"write broker.{name}=..., or vm:(broker:()/name?{name}=...)",
            )
