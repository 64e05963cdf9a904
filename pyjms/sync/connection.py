"""Blocking connection factory and connection."""

from __future__ import annotations

from typing import Unpack

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory as CoreConnectionFactory
from pyjms.client.options.client_options import ClientOptions, ConnectionFactoryKeywords
from pyjms.client.options.policies import PrefetchPolicy, RedeliveryPolicy, RedeliveryPolicyMap
from pyjms.enums import AcknowledgeMode
from pyjms.jms import api
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.sync.attributes import Attribute, forwarding
from pyjms.sync.closing import CloseableFacade
from pyjms.sync.facade import ReusableFacade, blocking, blocking_as
from pyjms.sync.portal import call_on_loop
from pyjms.sync.session import Session
from pyjms.sync.shared_loop import current_loop
from pyjms.transport.uri import TransportURI

__all__ = ["Connection", "ConnectionFactory"]


class Connection(CloseableFacade[api.Connection]):
    """A blocking connection. JMS: Connection; `pyjms.aio.Connection` has it as coroutines.

    It is stopped until `start`: consumers receive nothing. Threads may share it. Close it, or
    use it as a context manager; that closes everything created on it.
    """

    __slots__ = ()

    set_client_id = blocking(api.Connection.set_client_id)
    start = blocking(api.Connection.start)
    stop = blocking(api.Connection.stop)
    add_transport_listener = forwarding(ActiveMQConnection.add_transport_listener)
    remove_transport_listener = forwarding(ActiveMQConnection.remove_transport_listener)

    def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> Session:
        """Create a session. Blocks.

        Args:
            transacted: work is done in local transactions, ended by `commit` or `rollback`.
            acknowledge_mode: when messages count as consumed, if not transacted.

        Raises:
            JMSException: the mode is none of AUTO, CLIENT, DUPS_OK and INDIVIDUAL.
            ConnectionClosedException: the connection is closed.
        """
        core = call_on_loop(self.loop, self.core.create_session, transacted, acknowledge_mode)
        return Session.of(core, self.loop, self)

    client_id = Attribute[str | None](
        "The client id, which owns durable subscriptions; None until it is set or generated.",
        read_only=True,
    )
    metadata = Attribute[ConnectionMetaData]("Versions and names of the provider.", read_only=True)
    exception_listener = Attribute[api.ExceptionListener | None](
        "Called with the connection's failure, in the thread of the loop: it must not block."
    )


class ConnectionFactory(ReusableFacade[CoreConnectionFactory]):
    """Creates blocking connections to the broker of a URL. ActiveMQ: ActiveMQConnectionFactory.

    Threads may share it.

    Args:
        url: the broker's URL with options, such as `tcp://host:61616?jms.sendTimeout=500`; None:
            `tcp://localhost:61616`, unless AMQ_HOST and AMQ_PORT are set.
        user_name: the user of connections that name none; `user` is the same, as in settings.
        password: that user's password.
        redelivery_policy: the policy of destinations without one of their own.
        options: the options of `pyjms.aio.ConnectionFactory`; durations in seconds. They
            override those of the URL.

    Raises:
        ConfigurationException: the URL is malformed, or an option of it unknown.
        TypeError: a keyword is no option.
    """

    __slots__ = ()

    uri = Attribute[TransportURI]("The broker's URL without the options of the client.")
    options = Attribute[ClientOptions]("The options; `pyjms.aio.ConnectionFactory` has them, too.")
    user_name = Attribute[str | None]("The user of connections that name none.")
    password = Attribute[str | None]("That user's password.")
    exception_listener = Attribute[api.ExceptionListener | None](
        "The exception listener of new connections, called on the loop: it must not block."
    )
    redelivery_policy = Attribute[RedeliveryPolicy](
        "The redelivery policy of destinations without one of their own."
    )
    redelivery_policy_map = Attribute[RedeliveryPolicyMap](
        "The redelivery policies by destination.", read_only=True
    )
    prefetch_policy = Attribute[PrefetchPolicy](
        "How many messages are dispatched ahead of their acknowledgements.", read_only=True
    )

    def __init__(
        self, url: str | None = None, **options: Unpack[ConnectionFactoryKeywords]
    ) -> None:
        self.core = CoreConnectionFactory(url, **options)
        self.loop = current_loop()

    create_connection = blocking_as(lambda: Connection, CoreConnectionFactory.create_connection)
