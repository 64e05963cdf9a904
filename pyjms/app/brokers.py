"""The brokers of an application, and the factories of their connections and listener containers."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.client.factory import ConnectionFactory as ClientConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.api import Connection, ConnectionFactory
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory, JmsListenerEndpoint
from pyjms.listener.registry import JmsListenerEndpointRegistrar
from pyjms.runtime.logging import get_logger
from pyjms.settings import PyjmsSettings
from pyjms.template.resources import innermost_factory

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication
    from pyjms.app.objects import ApplicationObjects

T = TypeVar("T")


class ByBroker(Mapping[str, T]):
    """A mapping from the names of `brokers` to objects, each created when it is first requested.

    So a broker whose settings are wrong affects only the objects that use that broker. Use it on
    the loop, or before the loop runs.
    """

    def __init__(self, names: Iterable[str], create: Callable[[str], T]) -> None:
        self._names = tuple(names)
        self._create = create
        self._created: dict[str, T] = {}

    @property
    def created(self) -> tuple[T, ...]:
        """The objects that have been requested."""
        return tuple(self._created.values())

    def __getitem__(self, name: str) -> T:
        """Return the object of this broker."""
        if name not in self._created:
            if name not in self._names:
                raise KeyError(unknown_broker(name, self._names))
            self._created[name] = self._create(name)
        return self._created[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)


def unknown_broker(name: str, known: Iterable[str]) -> str:
    """Return the text for a name that `brokers` does not have."""
    known = tuple(known)
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known) or 'none'}"
    return f"`brokers` has no {name!r}; {hint}"


_DEFAULT_FACTORY = "jms_listener_container_factory"


class ContainerFactories:
    """The container factory of each endpoint; a provider is called once for each endpoint."""

    def __init__(self, objects: ApplicationObjects, settings: PyjmsSettings) -> None:
        self._objects = objects
        self._settings = settings
        self._named: dict[str, DefaultJmsListenerContainerFactory] = {}
        self._found: list[tuple[JmsListenerEndpoint, Any]] = []
        self._used: dict[int, Any] = {}
        self.registrar: JmsListenerEndpointRegistrar = JmsListenerEndpointRegistrar()
        """The registrar, whose factory is the default of endpoints that name none."""

    @property
    def used(self) -> tuple[Any, ...]:
        """The factories that have been used for containers."""
        return tuple(self._used.values())

    def start_again(self, registrar: JmsListenerEndpointRegistrar) -> None:
        """Forget the factories of endpoints, which are then determined again."""
        self._found.clear()
        self.registrar = registrar

    def put(self, endpoint: JmsListenerEndpoint, factory: Any) -> None:
        """Set the factory of an endpoint."""
        self._found.append((endpoint, factory))

    def use(self, endpoint: JmsListenerEndpoint) -> Any:
        """Return the factory of an endpoint, whose connections are closed by `close_all`."""
        factory = self.of(endpoint)
        self._used[id(factory)] = factory
        return factory

    def of(self, endpoint: JmsListenerEndpoint) -> Any:
        """Return the factory of an endpoint."""
        found = next((made for known, made in self._found if known is endpoint), None)
        if found is None:
            found = self._new(endpoint)
            self._found.append((endpoint, found))
        return found

    def _new(self, endpoint: JmsListenerEndpoint) -> Any:
        registrar = self.registrar
        if endpoint.container_factory is None and registrar.container_factory is not None:
            return registrar.container_factory
        name = endpoint.container_factory or registrar.container_factory_name or _DEFAULT_FACTORY
        if name in self._settings.brokers:
            return self._of_broker(name)
        provider = self._objects.find(name)
        if provider is None:
            raise ConfigurationException(
                f"Listener {endpoint.id or endpoint.destination!r}: there is no container factory "
                f"{name!r}",
                hint="add a provider of that name, or a broker of that name under `brokers`",
            )
        return provider()

    def _of_broker(self, name: str) -> DefaultJmsListenerContainerFactory:
        found = self._named.get(name)
        if found is None:
            default = self._objects.jms_listener_container_factory()
            pooled = self._settings.brokers[name].pool.enabled
            kind = "connection_factories" if pooled else "native_connection_factories"
            factory = getattr(self._objects, kind)()[name]
            found = DefaultJmsListenerContainerFactory(factory, **default.options)
            self._named[name] = found
        return found


def _kept_factories(objects: ApplicationObjects) -> list[Any]:
    """Return the templates' connection factories; of additional brokers, only those in use."""
    by_broker = objects.connection_factories()
    kept = by_broker.created if isinstance(by_broker, ByBroker) else by_broker.values()
    return [*kept, objects.connection_factory()]


def redelivery_policy_of(container_factory: Any) -> RedeliveryPolicy:
    """Return the default redelivery policy of a container factory's connections, pooled or not."""
    native = native_factory(container_factory)
    return RedeliveryPolicy() if native is None else native.redelivery_policy


def native_factory(container_factory: Any) -> ClientConnectionFactory | None:
    """Return the client's factory behind a container factory; None: it is another provider's."""
    factory: Any = getattr(container_factory, "connection_factory", None)
    native = innermost_factory(factory)
    return native if isinstance(native, ClientConnectionFactory) else None


def probed_factories(
    objects: ApplicationObjects, settings: PyjmsSettings
) -> dict[str, ConnectionFactory]:
    """Return the templates' connection factories by broker, except those of embedded brokers."""
    found: dict[str, ConnectionFactory] = {}
    if not settings.activemq.is_embedded:
        found["activemq"] = objects.connection_factory()
    by_broker = objects.connection_factories()
    for name, broker in settings.brokers.items():
        if not broker.is_embedded:
            found[name] = by_broker[name]
    return found


async def start_pools(objects: ApplicationObjects) -> None:
    """Allow the use of the pools, and open their first connections; failures are logged."""
    if "pyjms.connection.pool" not in sys.modules:
        return  # there can be none
    from pyjms.connection.pool import PooledConnectionFactory  # noqa: PLC0415 - few have pools

    for factory in _kept_factories(objects):
        if isinstance(factory, PooledConnectionFactory):
            await factory.start()


async def close_all(objects: ApplicationObjects, further: Iterable[Any]) -> None:
    """Close the connections kept by the templates' connection factories and by `further` ones."""
    for factory in (*further, *_kept_factories(objects)):
        destroy = getattr(factory, "destroy", None)
        if destroy is not None:
            await destroy()


async def hold_embedded_broker(objects: ApplicationObjects) -> Connection | None:
    """Create the main broker of an application, if it is embedded, and return a connection to it.

    A broker that a `vm://` URL creates stops with its last connection, and loses the messages that
    it keeps in memory. An application may have no connections at times: while all its listeners are
    paused, or between two sends of a template without a cache. So it keeps this one open.
    """
    native = objects.native_connection_factory()
    if type(native) is not ClientConnectionFactory:
        return None
    uri = native.uri
    if uri.scheme != "vm" or uri.options.get("create") == "false":
        return None  # a broker of another process, or one that this process manages elsewhere
    factory = ClientConnectionFactory(
        uri.with_secrets(), user_name=native.user_name, password=native.password
    )
    connection = await factory.create_connection()
    try:
        await connection.start()
    except BaseException:
        await connection.close()
        raise
    return connection


# --- The port of the broker that `pyjms run` embeds, so that a first example can be talked to.

logger: Final = get_logger(__name__)

HOST: Final = "127.0.0.1"
FIRST_PORT: Final = 61616
_PORTS: Final = range(FIRST_PORT, FIRST_PORT + 100)


def open_port(application: JmsApplication) -> Callable[[], None]:
    """Have the embedded broker of an application listen, if its settings name no broker.

    Before its start. Returns what logs, after the start, how to reach that broker.
    """
    settings = application.settings
    port = next(filter(_is_free, _PORTS), None) if settings.activemq.is_embedded else None
    if port is None:
        return lambda: None
    address = f"tcp://{HOST}:{port}"
    application.settings = settings.with_broker_url(
        f"vm:(broker:({address})/localhost?persistent=false&schedulerSupport=true)"
    )
    return partial(_tell_what_to_try, application, address)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _tell_what_to_try(application: JmsApplication, address: str) -> None:
    """Log how another terminal sends to the first listener that runs."""
    names = [
        f"topic://{name}" if container.pub_sub_domain and "://" not in name else name
        for container in application.registry
        if (name := container.destination_name)
    ]
    logger.info(
        "No broker is configured: this process has one, in memory, at %s. From another terminal: "
        "pyjms send%s %s TEXT",
        address,
        "" if address.endswith(f":{FIRST_PORT}") else f" --url {address}",
        shlex.quote(names[0]) if names else "QUEUE",
    )
