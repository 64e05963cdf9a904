"""The JmsTemplate of the blocking API.

Message creators and post processors run on the loop: they build messages and must not block.
Callbacks that receive a session run in the caller's thread, with blocking objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from pyjms.errors import DestinationResolutionException
from pyjms.jms.destination import AnyDestination, Queue
from pyjms.runtime.keywords import names_keywords
from pyjms.sync.connection import Connection
from pyjms.sync.facade import Attribute, GivenFactory, ReusableFacade, core_of, derive, loop_of
from pyjms.sync.portal import call_on_loop
from pyjms.sync.session import MessageProducer, QueueBrowser, Session
from pyjms.template import resources
from pyjms.template.template import JmsTemplate as CoreTemplate
from pyjms.template.template import TemplateOptions, TemplateSettings
from pyjms.template.template import Variants as CoreVariants

R = TypeVar("R")
Q_co = TypeVar("Q_co", bound=CoreVariants, covariant=True)

if TYPE_CHECKING:
    from pathlib import Path

    from pyjms.sync.derived import TemplateMembers, VariantMembers

    _Settings = TemplateSettings
else:
    VariantMembers = derive(CoreVariants)
    TemplateMembers = derive(
        CoreTemplate,
        but=TemplateSettings,
        omit="browse browse_selected execute execute_producer from_settings",
    )
    _Settings = derive(TemplateSettings, attributes=TemplateOptions.__optional_keys__)


class Variants(ReusableFacade[Q_co], VariantMembers, Generic[Q_co]):
    """Methods that return copies with other settings."""

    __slots__ = ()


class JmsTemplate(Variants[CoreTemplate], TemplateMembers, _Settings):
    """Sends and receives, and manages connections and sessions. Spring: JmsTemplate.

    Every call blocks. Threads may share it once it is configured. In a handler's thread it uses
    the application's loop, and takes part in the handler's transaction. Takes the options of
    `pyjms.aio.JmsTemplate`; durations are seconds.

    Example:
        template = JmsTemplate(ConnectionFactory("vm://shop?broker.persistent=false"))
        template.convert_and_send("orders.new", {"id": 1}, priority=7)
    """

    __slots__ = ()

    connection_factory: Attribute[Any] = Attribute("Opens the connections.")

    def __init__(
        self, connection_factory: GivenFactory, **options: Unpack[TemplateOptions]
    ) -> None:
        self.core: CoreTemplate = CoreTemplate(core_of(connection_factory), **options)
        self.loop = loop_of(connection_factory)
        self.connection_factory = connection_factory

    @classmethod
    @names_keywords
    def from_settings(
        cls,
        config: Path | str | None = None,
        *,
        profiles: Iterable[str] | None = None,
        broker: str | None = None,
    ) -> Self:
        """Return the template that an application with these settings has, for other programs.

        Login, TLS, failover, cache or pool, converter, interceptors, traces and the keys of
        `jms.template` come from application.yaml and the PYJMS_ variables, as for `pyjms run`.
        Reads files; connects with the first operation, in each process of its own after a fork.
        `connection_factory.destroy()` closes the connections, which the end of the process also
        does.

        Args:
            config: the YAML file; default: as for `load_settings`.
            profiles: names of files that override it; default: PYJMS_PROFILES.
            broker: a name in the settings `brokers`; None: the main broker.

        Raises:
            ConfigurationException: the settings are invalid, or name no broker outside of this
                process.
        """
        from pyjms.sync.factories import blocking_factory  # noqa: PLC0415 - not all need them

        core = CoreTemplate.from_settings(config, profiles=profiles, broker=broker)
        template = cls.of(core)
        template.connection_factory = blocking_factory(core.connection_factory, template.loop)
        return template

    def around(self, core: object) -> Self:
        """Return a template around `core`, with the same connection factory."""
        facade = super().around(core)
        facade.connection_factory = self.connection_factory
        return facade

    def execute(self, action: Callable[[Session], R], *, start_connection: bool = False) -> R:
        """Return the result of `action(session)`, called in this thread.

        In a JMS transaction or a handler, it is the bound session, otherwise a new one. In the
        transaction of another resource, the new session stays open until the transaction ends.

        Args:
            action: called with a blocking session.
            start_connection: whether to start the connection first, for actions that receive.
        """
        core = self.core
        resource = resources.bound_resource(core.connection_factory)
        transaction = resources.current_synchronizations()
        if resource is None and transaction is not None:
            resource = call_on_loop(
                self.loop,
                transaction.open_session,
                core.connection_factory,
                core.session_transacted,
                core.session_acknowledge_mode,
            )
        if resource is not None:
            if start_connection:
                call_on_loop(self.loop, resource.connection.start)
            return action(Session.of(resource.session, self.loop))
        opened = call_on_loop(self.loop, core.connection_factory.create_connection)
        with (
            Connection.of(opened, self.loop) as connection,
            connection.create_session(
                core.session_transacted, core.session_acknowledge_mode
            ) as session,
        ):
            if start_connection:
                connection.start()
            return action(session)

    def execute_producer(
        self, destination: AnyDestination, action: Callable[[Session, MessageProducer], R]
    ) -> R:
        """Return the result of `action(session, producer)`, called in this thread.

        Without a destination and a default destination, the producer has no destination.
        """

        def run(session: Session) -> R:
            target = self.core.resolve_or_none(session.core, destination)
            with session.create_producer(target) as producer:
                return action(session, producer)

        return self.execute(run)

    def browse(
        self, destination: AnyDestination, action: Callable[[Session, QueueBrowser], R]
    ) -> R:
        """Return the result of `action(session, browser)`; the messages stay in the queue.

        Raises:
            DestinationResolutionException: the destination is not a queue.
        """
        return self.browse_selected(destination, None, action)

    def browse_selected(
        self,
        destination: AnyDestination,
        selector: str | None,
        action: Callable[[Session, QueueBrowser], R],
    ) -> R:
        """Browse the messages that `selector` matches.

        Raises:
            DestinationResolutionException: the destination is not a queue.
        """

        def run(session: Session) -> R:
            queue = self.core.resolve_or_none(session.core, destination)
            if not isinstance(queue, Queue):
                raise DestinationResolutionException(
                    f"Destination {queue or destination} is not a queue",
                    hint="only queues can be browsed",
                )
            with session.create_browser(queue, selector) as browser:
                return action(session, browser)

        return self.execute(run, start_connection=True)
