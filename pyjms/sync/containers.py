"""Listener containers of the blocking API: handlers run in threads, control methods block.

The containers themselves run on the loop of their connection factory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, cast

from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.default_container import DefaultMessageListenerContainer as CoreDefault
from pyjms.listener.properties import ContainerProperties, DefaultContainerProperties
from pyjms.listener.simple_container import SimpleMessageListenerContainer as CoreSimple
from pyjms.listener.task_executor import AsyncTaskExecutor
from pyjms.sync.facade import (
    Attribute,
    Facade,
    GivenFactory,
    ReadOnly,
    StartedByWith,
    core_of,
    derive,
    loop_of,
)
from pyjms.sync.portal import call_on_loop, close_at_exit

_C = TypeVar("_C", bound=AbstractMessageListenerContainer)

if TYPE_CHECKING:
    from pyjms.sync.derived import ContainerMembers

    _Properties = ContainerProperties
    _DefaultProperties = DefaultContainerProperties
else:
    ContainerMembers = derive(
        AbstractMessageListenerContainer,
        but=ContainerProperties,
        omit="concurrency concurrent_consumers deliveries has_consumer is_paused is_recovering "
        "max_concurrent_consumers shared_connection_enabled",
    )
    _Properties = derive(ContainerProperties, attributes=CoreSimple.OPTIONS, on_loop=True)
    _DefaultProperties = derive(
        DefaultContainerProperties, attributes=CoreDefault.OPTIONS, on_loop=True
    )


class _Container(StartedByWith, Facade[_C], ContainerMembers, Generic[_C]):
    __slots__ = ()

    KIND: ClassVar[type[AbstractMessageListenerContainer]]
    END: ClassVar[str] = "shutdown"

    connection_factory: Attribute[Any] = Attribute("Opens the connections.", on_loop=True)
    active_consumer_count: Final = ReadOnly[int]("Number of consumers that are active now.")

    def __init__(self, connection_factory: GivenFactory, **options: Any) -> None:
        """Create the container; the options are those of `pyjms.aio`'s class of the same name."""
        self.loop = loop_of(connection_factory)
        cores = {name: self.take(name, value) for name, value in options.items()}
        core = core_of(connection_factory)

        async def make() -> AbstractMessageListenerContainer:
            return self.KIND(core, **cores)

        self.core: _C = cast("_C", call_on_loop(self.loop, make))
        self.take("connection_factory", connection_factory)
        close_at_exit(self.core, self.loop, self.END)


class DefaultMessageListenerContainer(_Container[CoreDefault], _DefaultProperties):
    """Receives with a number of consumers that follows the load.

    Spring: DefaultMessageListenerContainer.
    """

    __slots__ = ()

    KIND: ClassVar[type[AbstractMessageListenerContainer]] = CoreDefault

    is_recovering: Final = ReadOnly[bool](
        "Whether the connection is lost and not yet re-established."
    )
    paused_task_count: Final = ReadOnly[int](
        "Number of consumers that wait for a start, or for the task executor."
    )


class SimpleMessageListenerContainer(_Container[CoreSimple], _Properties):
    """Gets messages pushed to a fixed number of consumers.

    Spring: SimpleMessageListenerContainer.
    """

    __slots__ = ()

    KIND: ClassVar[type[AbstractMessageListenerContainer]] = CoreSimple

    concurrency: Attribute[str] = Attribute(
        'The number of consumers; for a range such as "2-4", the upper number.'
    )
    concurrent_consumers: Attribute[int] = Attribute(
        "The number of consumers at the next initialization."
    )
    max_concurrent_consumers: Final = ReadOnly[int]("The same as `concurrent_consumers`.")
    shared_connection_enabled: Final = ReadOnly[bool]("Always true.")
    connect_lazily: Attribute[bool] = Attribute(
        "Whether to connect at `start`, not at `initialize`."
    )
    recover_on_exception: Attribute[bool] = Attribute(
        "Whether to try once to reconnect after a failure."
    )
    task_executor: Attribute[AsyncTaskExecutor | None] = Attribute("Runs the listeners.")
