"""The running brokers of this process by name, for `vm://`.

A broker is registered when it starts and unregistered when it stops. `pyjms_broker.service` sets
the factory that creates a broker if none of that name is running. A broker runs on the event loop
that started it, `Registration.loop`; clients may be on another loop.
(activemq-broker B7, B9, B14)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from pyjms.errors import ConfigurationException, IllegalStateException, ResourceAllocationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import LoopHandle
from pyjms.runtime.fork import call_in_child
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost, ServedConnection
from pyjms_broker.connector.vm.bridge import run_on

if TYPE_CHECKING:
    from pyjms_broker.connector.vm.connector import VmConnector

BrokerFactory = Callable[[str, Mapping[str, str], "str | None"], Awaitable[BrokerHost]]
"""`create(name, broker_options, broker_config)` creates and starts a broker, which registers it."""

OptionsCheck = Callable[[Mapping[str, str]], object]
"""`check(broker_options)` raises ConfigurationException for an unknown or invalid option."""


class Registration:
    """A running broker, its event loop, and its connector for `vm://`."""

    def __init__(self, host: BrokerHost) -> None:
        self.host = host
        self.loop = LoopHandle()
        self._connector: VmConnector | None = None
        self._is_closed = False
        self.auto_created = False
        self.bridges: set[ServedConnection | None] = set()
        """The connections of the broker's own network bridges."""
        self.url_options: frozenset[tuple[str, str]] = frozenset()
        """The options of the `vm://` URL for which it was created."""
        self.logged: set[tuple[str, str]] = set()
        """Logged options of other `vm://` URLs, which had no effect."""

    @property
    def connector(self) -> VmConnector:
        """Its connector for `vm://`, created for the first client. Use it on the broker's loop."""
        if self._connector is None:
            # imported for the first client: a broker starts without the handling of connections
            from pyjms_broker.connector.vm.connector import VmConnector  # noqa: PLC0415

            self._connector = VmConnector(self.host, TransportURI("vm", self.host.broker_name))
            self._connector.stopping = self._is_closed
        return self._connector

    async def close(self) -> None:
        """Accept no more clients, and close the connections."""
        self._is_closed = True
        if self._connector is not None:
            await self._connector.stop()

    @property
    def alive(self) -> bool:
        """Return whether the broker's event loop is running; it may have ended without a stop."""
        try:
            self.loop.call_soon(_no_operation)
        except RuntimeError:
            return False
        return True


_registrations: dict[str, Registration] = {}
_creating: dict[str, tuple[LoopHandle, anyio.Event]] = {}
_arrivals: set[tuple[LoopHandle, anyio.Event]] = set()
_factory: BrokerFactory | None = None
_check: OptionsCheck | None = None


@call_in_child
def _forget_all() -> None:
    """Clear the registry in a child process, because the brokers run only in the parent."""
    _registrations.clear()
    _creating.clear()
    _arrivals.clear()


def set_factory(create: BrokerFactory, check: OptionsCheck) -> None:
    """Set the functions with which `vm://` creates a broker and checks its options."""
    global _factory, _check
    _factory, _check = create, check


def check_options(options: Mapping[str, str]) -> None:
    """Check the options of a broker, whether or not one has to be created."""
    if _check is not None:
        _check(options)


def is_option(name: str, text: str) -> bool:
    """Return whether a broker has this option, as far as that is known."""
    if _check is None:
        return False
    try:
        _check({name: text})
    except ConfigurationException:
        return False
    return True


def register(name: str, host: BrokerHost) -> Registration:
    """Make a started broker reachable as `vm://name`. Call it on the broker's loop."""
    present = _registrations.get(name)
    if present is not None and present.host is not host and present.alive:
        raise IllegalStateException(
            f"A broker named '{name}' already runs in this process",
            hint="give the brokers different names, or stop the other one",
        )
    _registrations[name] = registration = Registration(host)
    for loop, event in list(_arrivals):
        loop.call_soon(event.set)
    return registration


async def unregister(name: str, host: BrokerHost) -> None:
    """Remove a broker and close its vm connections. Idempotent."""
    registration = _registrations.get(name)
    if registration is None or registration.host is not host:
        return
    del _registrations[name]
    await registration.close()


def find(name: str) -> Registration | None:
    """Return the running broker of that name, on any loop of the process, or None."""
    registration = _registrations.get(name)
    if registration is None or registration.loop.is_current() or registration.alive:
        return registration
    _registrations.pop(name, None)
    return None


async def wait_for(name: str, seconds: float) -> Registration | None:
    """Wait at most `seconds` for a broker of that name to start. (waitForStart)"""
    arrival = (LoopHandle(), anyio.Event())
    found = find(name)
    with _clock.timeout(seconds):
        while found is None:
            _arrivals.add(arrival)
            try:
                await arrival[1].wait()
            finally:
                _arrivals.discard(arrival)
            arrival = (LoopHandle(), anyio.Event())
            found = find(name)
    return found


async def create(name: str, options: Mapping[str, str], config: str | None) -> Registration:
    """Create a broker; concurrent callers get the same one."""
    own = (LoopHandle(), anyio.Event())
    while (present := _creating.setdefault(name, own)) is not own:  # atomic: loops share it
        loop, made = present
        await (made.wait() if loop.is_current() else run_on(loop, made.wait))
        if (found := find(name)) is not None:
            return found
    try:
        if (found := find(name)) is not None:  # another loop has just created it
            return found
        if _factory is None:
            raise ResourceAllocationException(
                f"Cannot create the broker '{name}' for vm://{name}: no broker factory is set",
                hint="import pyjms_broker.service, or start a broker of that name first",
            )
        await _factory(name, options, config)
        registration = find(name)
        if registration is None:
            raise ResourceAllocationException(
                f"The broker created for vm://{name} did not register under that name",
                hint="let brokerConfig name the broker as the vm:// URL does",
            )
        registration.auto_created = True
        registration.url_options = url_options(options, config)
        return registration
    finally:
        _creating.pop(name)[1].set()


def url_options(options: Mapping[str, str], config: str | None) -> frozenset[tuple[str, str]]:
    """Return the options of a `vm://` URL that determine how the broker is created."""
    given = {f"broker.{name}": text for name, text in options.items()}
    if config is not None:
        given["brokerConfig"] = config
    return frozenset(given.items())


def _no_operation() -> None:
    """Do nothing; `Registration.alive` calls it to check whether the loop accepts calls."""
