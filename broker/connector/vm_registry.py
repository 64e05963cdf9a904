"""The brokers of this process by name, for `vm://`.

A broker registers itself when it starts and leaves when it stops; the service module sets
the factory that `vm://` uses for a name that nobody has. A broker belongs to the loop that
started it and cannot be reached by `vm://` from another one. (ActiveMQ B7, B9, B14)
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping

import anyio

from broker.connector.base import BrokerHost, TransportConnector
from pyjms import _clock
from pyjms._wakeup import LoopHandle
from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.transport import registry as transports

__all__ = [
    "BrokerFactory",
    "OptionsCheck",
    "Registration",
    "check_options",
    "create",
    "find",
    "register",
    "set_factory",
    "unregister",
    "wait_for",
]

BrokerFactory = Callable[[str, Mapping[str, str], "str | None"], Awaitable[BrokerHost]]
"""`create(name, broker_options, broker_config)` makes, starts and so registers a broker."""

OptionsCheck = Callable[[Mapping[str, str]], object]
"""`check(broker_options)` raises ConfigurationException for what no broker can be made with."""


class Registration:
    """A running broker, the loop it is on, and its door for `vm://`."""

    def __init__(self, host: BrokerHost) -> None:
        self.host = host
        self.loop = LoopHandle()
        self.connector: TransportConnector | None = None
        self.auto_created = False

    @property
    def alive(self) -> bool:
        """Whether the broker's loop still runs; a test may end its loop without a stop."""
        try:
            self.loop.call_soon(_nothing)
        except RuntimeError:
            return False
        return True


_registrations: dict[str, Registration] = {}
_creating: dict[str, tuple[LoopHandle, anyio.Event]] = {}
_arrivals: set[tuple[LoopHandle, anyio.Event]] = set()
_factory: BrokerFactory | None = None
_check: OptionsCheck | None = None


def set_factory(create: BrokerFactory, check: OptionsCheck) -> None:
    """Say how `vm://` makes a broker that is not there, and which options that takes."""
    global _factory, _check
    _factory, _check = create, check


def check_options(options: Mapping[str, str]) -> None:
    """Refuse what no broker could be made with, whether or not one has to be made.

    Raises:
        ConfigurationException: an option is unknown, or its value cannot be read.
    """
    _load_factory()
    if _check is not None:
        _check(options)


def register(name: str, host: BrokerHost) -> Registration:
    """Make a started broker reachable as `vm://name`. Call it on the broker's loop.

    Raises:
        IllegalStateException: another running broker has the name.
    """
    present = _registrations.get(name)
    if present is not None and present.host is not host and present.alive:
        raise IllegalStateException(
            f"A broker named '{name}' already runs in this process",
            hint="give the brokers different names, or stop the other one",
        )
    # spares vm:// the scan of installed packages, and works where pyjms is not installed
    from broker.connector.vm import vm_transport  # noqa: PLC0415 - vm imports this module

    transports.register("vm", vm_transport)
    _registrations[name] = registration = Registration(host)
    for loop, event in list(_arrivals):
        loop.call_soon(event.set)
    return registration


async def unregister(name: str, host: BrokerHost) -> None:
    """Take the broker off the list and close its vm connections. Idempotent."""
    registration = _registrations.get(name)
    if registration is None or registration.host is not host:
        return
    del _registrations[name]
    if registration.connector is not None:
        await registration.connector.stop()


def find(name: str) -> Registration | None:
    """The running broker of that name on this loop.

    Raises:
        IllegalStateException: it runs on another loop.
    """
    registration = _registrations.get(name)
    if registration is None or registration.loop.is_current():
        return registration
    if not registration.alive:
        _registrations.pop(name, None)
        return None
    raise _elsewhere(name)


async def wait_for(name: str, seconds: float) -> Registration | None:
    """Wait at most `seconds` for a broker of that name. (waitForStart)"""
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
    """Make the broker; several callers at once get the same one.

    Raises:
        ResourceAllocationException: no broker can be made in this process.
        JMSException: what the broker refuses.
    """
    while name in _creating:
        loop, made = _creating[name]
        if not loop.is_current():
            raise _elsewhere(name)
        await made.wait()
        if (found := find(name)) is not None:
            return found
    _creating[name] = (LoopHandle(), anyio.Event())
    try:
        _load_factory()
        if _factory is None:
            raise ResourceAllocationException(f"Nothing here can make the broker '{name}'")
        await _factory(name, options, config)
        registration = find(name)
        if registration is None:
            raise ResourceAllocationException(
                f"The broker made for vm://{name} did not register under that name",
                hint="let brokerConfig name the broker as the vm:// URL does",
            )
        registration.auto_created = True
        return registration
    finally:
        _creating.pop(name)[1].set()


def _load_factory() -> None:
    if _factory is None:
        importlib.import_module("broker.service")  # a floor above: it sets the factory


def _elsewhere(name: str) -> IllegalStateException:
    return IllegalStateException(
        f"Broker '{name}' runs on another event loop; vm:// reaches brokers of its own loop only",
        hint="give the broker a tcp connector, or start it and its clients on one loop",
    )


def _nothing() -> None:
    """What `Registration.alive` sends to the loop to see whether it still takes calls."""
