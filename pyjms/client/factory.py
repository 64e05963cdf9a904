"""The connection factory of the coroutine API. (activemq-edges 2, F9, N21)"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Unpack

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.options import ClientOptions, apply_keywords, apply_options
from pyjms.client.policies import (
    BlobTransferPolicy,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
)
from pyjms.jms.api import ExceptionListener, MessageTransformer
from pyjms.jms.domain import QueueConnectionFactory, TopicConnectionFactory
from pyjms.management import JMSStats
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.runtime.ids import IdGenerator
from pyjms.transport.openwire.correlator import InterruptionListener
from pyjms.transport.registry import check_supported, create_transport
from pyjms.transport.uri import TransportURI, default_broker_url

if TYPE_CHECKING:
    from pyjms.client.keywords import ClientKeywords


class ConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """Creates connections to the broker of a URL. ActiveMQ: ActiveMQConnectionFactory.

    Tasks of one loop may share a factory. Its attribute `options` has all options.

    Args:
        url: the broker's URL; None: `tcp://localhost:61616`, unless AMQ_HOST and AMQ_PORT are
            set. It may have options (`?jms.sendTimeout=500`, durations in milliseconds).
        user_name: the default user of connections; `user` is an alias, the name used in settings.
        password: that user's password.
        redelivery_policy: the default policy, for destinations without an entry in the policy map.
        options: options as keywords (`send_timeout=0.5`, durations in seconds); they override
            those of the URL. See `ClientOptions`.
    """

    _connection_class: type[ActiveMQConnection] = ActiveMQConnection

    def __init__(
        self,
        url: str | None = None,
        *,
        user_name: str | None = None,
        password: str | None = None,
        user: str | None = None,
        redelivery_policy: RedeliveryPolicy | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        """Read the options; does not connect.

        Raises:
            ConfigurationException: the URL is malformed, or has an unknown option.
            UnsupportedOperationException: the URL has a scheme of ActiveMQ that is not supported.
            TypeError: a keyword is not an option or has the wrong type, or both `user` and
                `user_name` are given.
            ValueError: a number is out of range.
        """
        if user is not None and user_name is not None:
            raise TypeError("user and user_name are the same: give one of them")
        uri = TransportURI.parse(url or default_broker_url())
        check_supported(uri)
        given, remaining = uri.split_options("jms.")
        self.uri: TransportURI = remaining
        self.options: ClientOptions = ClientOptions()
        self.take_options(given)
        credentials = apply_options(given, self.options)
        user_name = user if user_name is None else user_name
        self.user_name: str | None = (
            credentials.get("user_name") if user_name is None else user_name
        )
        self.password: str | None = credentials.get("password") if password is None else password
        self._stats = JMSStats()
        self.exception_listener: ExceptionListener | None = None
        """The exception listener of new connections."""
        self.transformer: MessageTransformer | None = None
        """The message transformer of new connections."""
        self.transport_listener: InterruptionListener | None = None
        """The transport listener of new connections, in addition to their own ones: see
        `ActiveMQConnection.add_transport_listener`. ActiveMQ: setTransportListener."""
        apply_keywords(options, self.options)
        if redelivery_policy is not None:
            self.redelivery_policy = redelivery_policy
        self._client_ids = _ids(self.options.client_id_prefix)
        self._connection_ids = _ids(self.options.connection_id_prefix)

    def take_options(self, given: dict[str, str]) -> None:
        """Remove the options that only a subclass has from those of the URL, without `jms.`."""

    @property
    def stats(self) -> JMSStats:
        """The statistics of the factory's open connections, if `stats_enabled` is on."""
        return self._stats

    @property
    def redelivery_policy(self) -> RedeliveryPolicy:
        """The default redelivery policy, for destinations without an entry in the policy map."""
        return self.options.redelivery_policy_map.default_entry

    @redelivery_policy.setter
    def redelivery_policy(self, policy: RedeliveryPolicy) -> None:
        self.options.redelivery_policy_map.default_entry = policy

    redelivery_policy_map: Final = DelegatedAttribute[RedeliveryPolicyMap](
        attrgetter("options"), "The redelivery policies by destination.", read_only=True
    )
    prefetch_policy: Final = DelegatedAttribute[PrefetchPolicy](
        attrgetter("options"),
        "How many messages are dispatched ahead of their acknowledgements.",
        read_only=True,
    )
    blob_transfer_policy: Final = DelegatedAttribute[BlobTransferPolicy](
        attrgetter("options"), "Where the bodies of blob messages are stored.", read_only=True
    )

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> ActiveMQConnection:
        """Connect, and return a connection that is not started.

        Waits until the transport is established. The broker checks the credentials and the client
        id on the first use of the connection. Cancelling closes the transport.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.

        Raises:
            ConnectionFailedException: the broker cannot be reached, or does not speak OpenWire.
            ConfigurationException: the transport does not know an option of the URL.
        """
        if user_name is None:
            user_name, password = self.user_name, self.password
        self.options.check()
        transport = create_transport(self.uri)
        connection = self._connection_class(
            transport,
            replace(self.options),
            self._connection_ids.generate(),
            self._client_ids.generate,
            user_name,
            password,
        )
        connection.exception_listener = self.exception_listener
        connection.transformer = self.transformer
        if self.transport_listener is not None:
            connection.add_transport_listener(self.transport_listener)
        try:
            await transport.start()
        except BaseException:
            await connection.close()
            raise
        if connection.stats is not None:
            self._stats.add_connection(connection.stats)
        return connection

    def __repr__(self) -> str:
        return f"ConnectionFactory({str(self.uri)!r})"


def _ids(prefix: str | None) -> IdGenerator:
    return IdGenerator() if prefix is None else IdGenerator(prefix)
