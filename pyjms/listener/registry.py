"""The containers of an application's listeners, by id.

Each endpoint has one container. `start` starts the containers by phase, lowest first; `stop` and
`shutdown` stop them by phase, highest first. The containers of one phase stop concurrently, and the
next phase follows when their handlers have finished. A listener registered later starts at once.
(spring-jms 6.6, 6.7, 6.8)

A `JmsListenerEndpointRegistrar` collects what configurers add in code. (spring-jms 6.3, 6.9)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, Unpack

import anyio

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.decorators import JmsListenerMark, ListenerOptions, mark_of
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.handler import ArgumentResolver
from pyjms.listener.properties import PHASE_LAST
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

_ID_PREFIX = "pyjms.JmsListenerEndpointContainer#"

ContainerMaker = Callable[[JmsListenerEndpoint], "AbstractMessageListenerContainer"]


class JmsListenerEndpointRegistry:
    """Creates, keeps, starts and stops listener containers. Use it on the application's loop.

    Spring: JmsListenerEndpointRegistry.
    """

    def __init__(self) -> None:
        self._containers: dict[str, AbstractMessageListenerContainer] = {}
        self._generated = 0
        self._started = False
        self.phase: int = PHASE_LAST

    def __iter__(self) -> Iterator[AbstractMessageListenerContainer]:
        return iter(list(self._containers.values()))

    def __len__(self) -> int:
        return len(self._containers)

    def __getitem__(self, listener_id: str) -> AbstractMessageListenerContainer:
        try:
            return self._containers[listener_id]
        except KeyError:
            known = ", ".join(self._containers) or "none"
            raise KeyError(f"no listener has the id {listener_id!r}; there are: {known}") from None

    @property
    def is_running(self) -> bool:
        """Whether any container runs."""
        return any(container.is_running for container in self)

    def get_listener_container(self, listener_id: str) -> AbstractMessageListenerContainer | None:
        """Return the container of this id, or None."""
        return self._containers.get(listener_id)

    def get_listener_container_ids(self) -> tuple[str, ...]:
        """Return all ids, in the order of registration."""
        return tuple(self._containers)

    def get_listener_containers(self) -> tuple[AbstractMessageListenerContainer, ...]:
        """Return all containers, in the order of registration."""
        return tuple(self._containers.values())

    def register(
        self, endpoint: JmsListenerEndpoint, make_container: ContainerMaker
    ) -> AbstractMessageListenerContainer:
        """Create the endpoint's container and keep it, not started.

        Raises:
            IllegalStateException: the id is in use, or the phases of the factories differ.
        """
        if not endpoint.id:
            endpoint.id = f"{_ID_PREFIX}{self._generated}"
            self._generated += 1
        if endpoint.id in self._containers:
            raise IllegalStateException(
                f"Another endpoint is already registered with id '{endpoint.id}'",
                hint="give each @jms_listener its own id",
            )
        container = make_container(endpoint)
        if "phase" not in endpoint.properties:  # a phase set on the listener itself may differ
            self._check_phase(container)
        self._containers[endpoint.id] = container
        return container

    async def register_and_start(
        self, endpoint: JmsListenerEndpoint, make_container: ContainerMaker
    ) -> AbstractMessageListenerContainer:
        """Create the endpoint's container and start it if the registry has been started."""
        container = self.register(endpoint, make_container)
        if self._started and container.auto_startup:
            await container.start()
        return container

    async def unregister(self, listener_id: str, timeout: float | None = None) -> None:
        """Shut down the container of this id and remove it.

        Raises:
            KeyError: there is no such id; the text lists the existing ones.
        """
        container = self[listener_id]
        del self._containers[listener_id]
        await container.shutdown(timeout)

    async def start(self, *, auto_startup_only: bool = False) -> None:
        """Start all containers, or only those with `auto_startup`, lower phases first."""
        self._started = True
        for containers in self._by_phase():
            for container in containers:
                if container.auto_startup or not auto_startup_only:
                    await container.start()

    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop all containers, higher phases first; return when their listeners have finished.

        `callback` is called just before the return.
        """
        for containers in reversed(self._by_phase()):
            waiting = []
            for container in containers:
                done = anyio.Event()
                await container.stop(done.set)
                waiting.append(done)
            for done in waiting:
                await done.wait()
        if callback is not None:
            callback()

    async def pause(self, *listener_ids: str, timeout: float | None = None) -> bool:
        """Pause listeners (all that were started, unless named) until `resume`.

        Returns True when none of their handlers is running any more, or False after `timeout`
        seconds (None waits for ever).

        Raises:
            KeyError: there is no listener of such an id.
        """
        chosen = self._select(listener_ids)
        ended: list[bool] = []

        async def pause(container: AbstractMessageListenerContainer) -> None:
            ended.append(await container.pause(timeout))

        async with anyio.create_task_group() as tasks:
            for container in chosen:
                tasks.start_soon(pause, container)
        logger.info("Paused: %s", _names(chosen))
        return all(ended)

    async def resume(self, *listener_ids: str) -> None:
        """Resume paused or stopped listeners (all unless named).

        One that was never started, because of `auto_startup`, starts only if it is named.

        Raises:
            KeyError: there is no listener of such an id.
            JMSException: a container cannot start; the others before it have.
        """
        chosen = self._select(listener_ids)
        for container in chosen:
            await container.resume()
        logger.info("Listening again: %s", _names(chosen))

    def _select(self, listener_ids: tuple[str, ...]) -> list[AbstractMessageListenerContainer]:
        if listener_ids:
            return [self[listener_id] for listener_id in listener_ids]
        return [container for container in self if container.has_started]

    async def shutdown(self, timeout: float | None = None) -> None:
        """Shut down all containers, higher phases first, and remove them.

        The containers of one phase shut down concurrently. Handlers in progress have `timeout`
        seconds to finish, in each phase.
        """
        self._started = False
        for containers in reversed(self._by_phase()):
            async with anyio.create_task_group() as tasks:
                for container in containers:
                    tasks.start_soon(container.shutdown, timeout)
        self._containers.clear()

    def _by_phase(self) -> list[list[AbstractMessageListenerContainer]]:
        """Return the containers grouped by phase, lowest first, each in order of registration."""
        in_order = sorted(self, key=_phase)
        return [list(containers) for _, containers in groupby(in_order, _phase)]

    def _check_phase(self, container: AbstractMessageListenerContainer) -> None:
        if container.phase == PHASE_LAST:
            return
        if self.phase not in (PHASE_LAST, container.phase):
            raise IllegalStateException(
                "Encountered phase mismatch between container factory definitions: "
                f"{self.phase} vs {container.phase}",
                hint="give all container factories the same phase",
            )
        self.phase = container.phase


def _names(containers: list[AbstractMessageListenerContainer]) -> str:
    return ", ".join(str(container.bean_name) for container in containers) or "no listener"


def _phase(container: AbstractMessageListenerContainer) -> int:
    return container.phase


class JmsListenerEndpointRegistrar:
    """Collects the settings and endpoints of configurers. Spring: JmsListenerEndpointRegistrar.

    Attributes:
        container_factory: creates the containers of listeners that name no factory; None: the
            provider `container_factory_name`, or else `jms_listener_container_factory`.
        container_factory_name: the name of the provider of that factory.
        argument_resolvers: asked in this order for handler parameters without a marker.
        endpoint_registry: creates and keeps the containers; None: the application's.
    """

    def __init__(self) -> None:
        self.container_factory: object = None
        self.container_factory_name: str | None = None
        self.argument_resolvers: list[ArgumentResolver] = []
        self.endpoint_registry: JmsListenerEndpointRegistry | None = None
        self.endpoints: list[tuple[JmsListenerEndpoint, Any | None]] = []
        """The endpoints that were added, each with its factory; None: the default factory."""
        self.handlers: list[tuple[Callable[..., object], JmsListenerMark]] = []
        """The handlers that were added, with their marks."""

    def register_endpoint(self, endpoint: JmsListenerEndpoint, factory: object = None) -> None:
        """Add an endpoint, with the factory that creates its container.

        Raises:
            ValueError: it has no id.
        """
        if not endpoint.id:
            raise ValueError("Endpoint id must be set: give the endpoint an id")
        self.endpoints.append((endpoint, factory))

    def register_handler(
        self,
        handler: Callable[..., object],
        *destinations: str | Destination,
        **options: Unpack[ListenerOptions],
    ) -> None:
        """Add a handler, as if it had the mark `@jms_listener(*destinations, **options)`.

        Raises:
            TypeError, ValueError: as `jms_listener`.
        """
        self.handlers.append((handler, mark_of(*destinations, **options)))
