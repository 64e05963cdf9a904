"""The configuration of a broker: its attributes, and the objects that it is built from.

The module of a store is imported when the store is created: a broker in memory needs none.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.broker import Broker, BrokerPlugin
from pyjms_broker.attribute import flag
from pyjms_broker.filters.virtual_destinations import VirtualDestination
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.service.attributes import BrokerAttributes, SystemUsageAttributes
from pyjms_broker.store.api import PersistenceAdapter

if TYPE_CHECKING:
    from pyjms_broker.web import WebConfiguration

logger = get_logger(__name__)

Hook: TypeAlias = Callable[[], Awaitable[object] | object]
"""A function without arguments, `def` or `async def`, called when a broker starts or stops.

It runs on the event loop: do not block. (ActiveMQ BrokerService.addPreShutdownHook,
addShutdownHook; activemq-broker B9)
"""


async def run_hooks(hooks: Iterable[Hook]) -> None:
    """Call the hooks in order; raise the first error."""
    for hook in hooks:
        result = hook()
        if inspect.isawaitable(result):
            await result


async def run_stop_hooks(hooks: Iterable[Hook], broker_name: str, timeout: float | None) -> None:
    """Call the hooks in order, each for at most `timeout` seconds; errors are logged."""
    for hook in hooks:
        try:
            with _clock.timeout(timeout) as scope:
                await run_hooks([hook])
        except Exception:
            logger.exception("Broker %s: the shutdown hook %r failed", broker_name, hook)
            continue
        if scope.cancelled_caught:
            logger.warning(
                "Broker %s: the shutdown hook %r did not end within %s s",
                broker_name,
                hook,
                timeout,
            )


class PersistenceFactory(Protocol):
    """Creates a new store each time the broker starts."""

    @property
    def directory_name(self) -> str | None:
        """The name of the store's directory in the broker's; None for a store without files."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the closed store in `directory`; the name distinguishes brokers that share it.

        Raises:
            ConfigurationException: the settings contradict each other, or an extra is missing.
        """


class KahaDBPersistenceFactory(PersistenceFactory):
    """Creates a KahaDB store with default settings."""

    directory_name = "KahaDB"

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the closed store in `directory`."""
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - see above
        from pyjms_broker.store.kahadb.settings import KahaDBSettings  # noqa: PLC0415

        return KahaDBPersistenceAdapter(directory, KahaDBSettings())


@dataclass(frozen=True)
class IOExceptionHandler:
    """The reaction to a failed store. Source: ActiveMQ DefaultIOExceptionHandler."""

    ignore_all_errors: bool = flag("Whether the broker keeps running without its store.")
    stop_start_connectors: bool = flag("Whether connectors are closed while the disk is full.")
    system_exit_on_shutdown: bool = flag(
        "Whether the process is ended with SIGTERM after the broker had to stop."
    )


@dataclass(kw_only=True, init=False, repr=False, eq=False)  # only a base class
class BrokerConfiguration(SystemUsageAttributes, BrokerAttributes):
    """The broker attributes, and the objects that can only be passed in code.

    See `pyjms_broker.service.attributes`.
    """

    store_directory: Path | str | None = None
    persistence: PersistenceFactory | None = None
    persistence_adapter: PersistenceAdapter | None = None
    io_exception_handler: IOExceptionHandler | None = None
    virtual_destinations: Sequence[VirtualDestination] | None = None
    policies: PolicyMap | None = None
    plugins: Sequence[BrokerPlugin | Callable[[Broker], Broker]] = ()
    destinations: Sequence[Destination] = ()
    startup_hooks: Sequence[Hook] = ()
    pre_shutdown_hooks: Sequence[Hook] = ()
    shutdown_hooks: Sequence[Hook] = ()
    web: WebConfiguration | None = None

    def __post_init__(self) -> None:
        self.data_directory = Path(self.data_directory)
        if self.store_directory is not None:
            self.store_directory = Path(self.store_directory)
        if self.scheduler_directory is not None:
            self.scheduler_directory = Path(self.scheduler_directory)
        self.persistence = self.persistence or KahaDBPersistenceFactory()
        self.io_exception_handler = self.io_exception_handler or IOExceptionHandler()
        self.plugins = tuple(self.plugins)
        self.destinations = tuple(self.destinations)
