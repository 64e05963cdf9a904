"""ActiveMQ's broker plug-ins in broker.yaml (`plugins`). (activemq-broker 1.1)

Users and rights first (activemq-edges 6), then `runtime_configuration`, which applies changes of
the file without a restart, then the plug-ins that only have a table of options.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from pyjms.configuration.section import Section
from pyjms.configuration.units import Duration
from pyjms.errors import ConfigurationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.broker import Broker, BrokerFilter, BrokerPlugin
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.management import RuntimeUpdates, StatisticsBrokerPlugin
from pyjms_broker.plugins.datagram_trace import MulticastTraceBrokerPlugin, UDPTraceBrokerPlugin
from pyjms_broker.plugins.destination_list import DEFAULT_FILE, DestinationsPlugin
from pyjms_broker.plugins.discarding_dlq import DiscardingDLQBrokerPlugin
from pyjms_broker.plugins.dot_files import (
    ConnectionDotFilePlugin,
    DestinationDotFilePlugin,
    DotFilePlugin,
)
from pyjms_broker.plugins.event_logging import LoggingBrokerPlugin
from pyjms_broker.plugins.message_headers import (
    ForcePersistencyModeBrokerPlugin,
    TimeStampingBrokerPlugin,
    TraceBrokerPathPlugin,
)
from pyjms_broker.plugins.path_separator import DestinationPathSeparatorPlugin
from pyjms_broker.plugins.redelivery import RedeliveryPlugin, RedeliveryPolicy
from pyjms_broker.plugins.selector_cache import VirtualSelectorCacheBrokerPlugin
from pyjms_broker.security.audit import AuditBroker
from pyjms_broker.security.authentication import AuthenticationBroker, Authenticator, FailedLogins
from pyjms_broker.security.authorization import (
    AuthorizationBroker,
    AuthorizationEntry,
    AuthorizationMap,
)
from pyjms_broker.security.jaas import JaasAuthenticator
from pyjms_broker.security.passwords import check_stored
from pyjms_broker.security.users import (
    PropertiesUsers,
    User,
    UserAuthenticator,
    UserTable,
    group_names,
)
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.values import (
    BuiltSection,
    DestinationName,
    Groups,
    arguments_of,
)

if TYPE_CHECKING:
    from pyjms_broker.management import Management

__all__ = [
    "BUILT_IN_PLUGINS",
    "AccessSettings",
    "AuditSettings",
    "AuthorizationEntrySettings",
    "AuthorizationSettings",
    "JaasAuthenticationSettings",
    "JaasCertificateAuthenticationSettings",
    "JaasDualAuthenticationSettings",
    "LoginSettings",
    "PropertiesAuthenticationSettings",
    "RedeliveryPolicySettings",
    "RuntimeConfigurationSettings",
    "SimpleAuthenticationSettings",
    "UserSettings",
]


class AccessSettings(Section):
    """Groups by right: `admins,users` or a list; `*`: every user."""

    read: Groups = frozenset()
    """Groups that may receive and browse."""
    write: Groups = frozenset()
    """Groups that may send."""
    admin: Groups = frozenset()
    """Groups that may create and remove destinations, also by their first message or consumer."""


class AuthorizationEntrySettings(AccessSettings):
    """The rights on a destination (`entries` of `authorization`)."""

    destination: DestinationName
    """Name or pattern: orders.> for queues, topic://news.*."""


class AuthorizationSettings(PluginSettings):
    """Which groups may do what. ActiveMQ: authorizationPlugin."""

    type: Literal["authorization"] = "authorization"
    entries: tuple[AuthorizationEntrySettings, ...] = ()
    """Rights by destination; the rights of all matching entries are combined."""
    default_entry: AccessSettings | None = None
    """Additional rights on all destinations; null: none."""
    temp_destination_entry: AccessSettings | None = None
    """Rights on temporary destinations; null: everybody has all rights."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that checks the rights of clients."""
        return AuthorizationBroker(broker, self._rights())

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Apply the new rights from now on."""
        if not isinstance(installed, AuthorizationBroker):
            return None
        installed.change_rights(self._rights())
        return installed

    def _rights(self) -> AuthorizationMap:
        return AuthorizationMap(
            (_entry(each, each) for each in self.entries),
            None if self.default_entry is None else _entry(self.default_entry),
            None if self.temp_destination_entry is None else _entry(self.temp_destination_entry),
        )


class AuditSettings(PluginSettings):
    """The audit log has what clients create and remove, too: logger `pyjms_broker.audit`."""

    type: Literal["audit"] = "audit"

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that writes the audit log."""
        return AuditBroker(broker)


def _entry(
    access: AccessSettings, named: AuthorizationEntrySettings | None = None
) -> AuthorizationEntry:
    destination = None if named is None else named.destination
    return AuthorizationEntry(destination, access.read, access.write, access.admin)


class LoginSettings(PluginSettings):
    """The limit of failed logins; subclasses create the authenticator."""

    maximum_failed_logins: int = Field(default=10, ge=0)
    """Failed logins after which an address is refused for some time; 0: no limit."""
    failed_login_period: Duration = Field(default=60.0, gt=0)
    """Time after which an address's failed logins are forgotten."""

    @abstractmethod
    def authenticator(self) -> Authenticator:
        """Create the authenticator; called each time the broker starts."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that authenticates clients."""
        return AuthenticationBroker(broker, self.authenticator(), self._limit())

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Reload the users from their files and apply them to the next logins."""
        if not isinstance(installed, AuthenticationBroker):
            return None
        await installed.change(self.authenticator(), self._limit())
        return installed

    def _limit(self) -> FailedLogins:
        return FailedLogins(self.maximum_failed_logins, self.failed_login_period)


class UserSettings(Section):
    """A user (`users` of `simple_authentication`). ActiveMQ: authenticationUser."""

    username: str = Field(min_length=1)
    """Name that the client logs in with."""
    password: SecretStr
    """Password, or a hash that `pyjms broker passwd` prints."""
    groups: Groups = frozenset()
    """Groups of the user: admins,users or a list."""

    @field_validator("password")
    @classmethod
    def _check_password(cls, password: SecretStr) -> SecretStr:
        try:
            check_stored(password.get_secret_value())
        except ConfigurationException as error:
            raise ValueError(str(error)) from None
        return password

    def build(self) -> User:
        """Create the user."""
        return User(self.username, self.password.get_secret_value(), self.groups)


class SimpleAuthenticationSettings(LoginSettings):
    """Users of the configuration. ActiveMQ: simpleAuthenticationPlugin. (activemq-edges SE1)"""

    type: Literal["simple_authentication"] = "simple_authentication"
    users: tuple[UserSettings, ...] = ()
    """The users with their passwords and groups."""
    anonymous_access_allowed: bool = False
    """Whether clients without user and password may connect."""
    anonymous_user: str = "anonymous"
    """Name of the user for such clients."""
    anonymous_group: str = "anonymous"
    """Groups of that user."""

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        names = [user.username for user in self.users]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"users: there are two of the name {twice[0]}")
        if not names and not self.anonymous_access_allowed:
            raise ValueError("users: there are none, so no client could connect")
        return self

    def authenticator(self) -> Authenticator:
        """Create what knows the users."""
        anonymous = None
        if self.anonymous_access_allowed:
            anonymous = SecurityContext(self.anonymous_user, group_names(self.anonymous_group))
        return UserAuthenticator(UserTable(user.build() for user in self.users), anonymous)


class PropertiesAuthenticationSettings(LoginSettings):
    """Users of ActiveMQ's files. ActiveMQ: PropertiesLoginModule. (activemq-edges SE3)"""

    type: Literal["properties_authentication"] = "properties_authentication"
    users_file: Path = Path("users.properties")
    """File with a line user=password for each user."""
    groups_file: Path = Path("groups.properties")
    """File with a line group=user1,user2 for each group."""
    reload: bool = False
    """Whether changes of the files take effect at the next login, without a restart."""

    def authenticator(self) -> Authenticator:
        """Create what knows the users."""
        return UserAuthenticator(
            PropertiesUsers(self.users_file, self.groups_file, reloads=self.reload)
        )


class _JaasSettings(LoginSettings):
    login_config: Path = Path("login.config")
    """The file with the login modules."""
    configuration: str = "activemq-domain"
    """Name of the entry in that file."""


class JaasAuthenticationSettings(_JaasSettings):
    """Users of login modules. ActiveMQ: jaasAuthenticationPlugin."""

    type: Literal["jaas_authentication"] = "jaas_authentication"

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, self.configuration, None)


class JaasCertificateAuthenticationSettings(_JaasSettings):
    """Users are the subjects of certificates. ActiveMQ: jaasCertificateAuthenticationPlugin."""

    type: Literal["jaas_certificate_authentication"] = "jaas_certificate_authentication"

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, None, self.configuration)


class JaasDualAuthenticationSettings(_JaasSettings):
    """Certificates at connectors with TLS, passwords elsewhere.

    ActiveMQ: jaasDualAuthenticationPlugin.
    """

    type: Literal["jaas_dual_authentication"] = "jaas_dual_authentication"
    ssl_configuration: str = "activemq-ssl-domain"
    """Name of the entry for clients of connectors with TLS."""

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, self.configuration, self.ssl_configuration)


logger = get_logger(__name__)


class RuntimeConfigurationBroker(BrokerFilter):
    """Applies changes of the file every `check_period` seconds; 0: only on request.

    Source: ActiveMQ RuntimeConfigurationBroker.
    """

    def __init__(
        self, next_broker: Broker, configuration: RuntimeUpdates, check_period: float
    ) -> None:
        super().__init__(next_broker)
        self._configuration = configuration
        self._configuration.check_period = self._period = check_period
        self._watch: BackgroundTask | None = None
        self._stopped = False

    async def start(self) -> None:
        await super().start()
        self._stopped = False
        self._start_watch()

    async def stop(self) -> None:
        self._stopped = True
        await end_tasks(self._watch)
        self._watch = None
        await super().stop()

    def check_every(self, period: float) -> None:
        """Check the file every `period` seconds from now on; 0: never."""
        self._configuration.check_period = self._period = period
        self._start_watch()

    def _start_watch(self) -> None:
        if self._period > 0 and not self._stopped and (self._watch is None or self._watch.done):
            self._watch = spawn(self._check_periodically, name="check of the configuration file")

    async def _check_periodically(self) -> None:
        reported = ""
        while self._period > 0:
            await _clock.sleep(self._period)
            try:
                await self._configuration.update()
                reported = ""
            except ConfigurationException as error:
                if str(error) != reported:  # log it once, not at each check
                    logger.error("The changed configuration was not applied: %s", error)
                reported = str(error)
            except Exception:
                logger.exception("Changes of the configuration could not be applied")


class RuntimeConfigurationSettings(PluginSettings):
    """Changes of this file take effect while the broker runs, where they can.

    ActiveMQ: runtimeConfigurationPlugin.
    """

    type: Literal["runtime_configuration"] = "runtime_configuration"
    check_period: Duration = Field(default=0.0, ge=0)
    """Time between checks of the file; 0: it is reloaded only on SIGHUP."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Refuse: a broker without a service has no configuration file.

        Raises:
            ConfigurationException: always; BrokerService calls `install_managed_plugin` instead.
        """
        raise _no_file()

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the filter that checks the file for changes.

        Raises:
            ConfigurationException: the broker was not configured from a file.
        """
        from pyjms_broker.service import BrokerService  # noqa: PLC0415 - it imports much
        from pyjms_broker.settings.model import BrokerSettings  # noqa: PLC0415 - it imports this
        from pyjms_broker.settings.runtime import RuntimeConfiguration  # noqa: PLC0415 - the same

        service = management.context.host
        if not isinstance(service, BrokerService):
            raise _no_file()
        settings, current = service.configured.settings, service.configured.updates
        if not isinstance(settings, BrokerSettings) or settings.source is None:
            raise _no_file()
        if current is None:
            current = RuntimeConfiguration(service, settings, settings.source)
            service.configured.updates = current
        return RuntimeConfigurationBroker(broker, current, self.check_period)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Change the interval of the checks."""
        if not isinstance(installed, RuntimeConfigurationBroker):
            return None
        installed.check_every(self.check_period)
        return installed


def _no_file() -> ConfigurationException:
    return ConfigurationException(
        "The plug-in runtime_configuration has no file to read again",
        hint="start the broker with a configuration file, or leave the plug-in out",
    )


class _BuiltInPlugin(BuiltSection[BrokerPlugin], PluginSettings):
    """The settings of a plug-in, from its table of options, which is also the plug-in."""

    type: str
    is_read_at_start: ClassVar[bool] = False
    """Whether a new filter would lose what the installed one knows, so that changes wait."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the plug-in's filter around `broker`."""
        return self.build().install_plugin(broker)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Return a new filter that replaces the installed one, unless it has to stay."""
        if self.is_read_at_start or not isinstance(installed, BrokerFilter):
            return None
        return self.install_plugin(installed.next)


class TimeStampingSettings(_BuiltInPlugin, TimeStampingBrokerPlugin):
    """Messages get the broker's time, and keep their time to live."""

    type: Literal["time_stamping"] = "time_stamping"


class ForcePersistencyModeSettings(_BuiltInPlugin, ForcePersistencyModeBrokerPlugin):
    """Every message is persistent, or none is."""

    type: Literal["force_persistency_mode"] = "force_persistency_mode"


class DestinationPathSeparatorSettings(_BuiltInPlugin, DestinationPathSeparatorPlugin):
    """Clients may write another separator than a dot."""

    type: Literal["destination_path_separator"] = "destination_path_separator"


class LoggingSettings(_BuiltInPlugin, LoggingBrokerPlugin):
    """Events are logged; message headers, but no bodies, properties or passwords."""

    type: Literal["logging"] = "logging"


class TraceBrokerPathSettings(_BuiltInPlugin, TraceBrokerPathPlugin):
    """A property lists the brokers that a message has passed."""

    type: Literal["trace_broker_path"] = "trace_broker_path"


class DiscardingDLQSettings(_BuiltInPlugin, DiscardingDLQBrokerPlugin):
    """Messages that would be dead-lettered are discarded."""

    type: Literal["discarding_dlq"] = "discarding_dlq"


class RedeliveryPolicySettings(BuiltSection[RedeliveryPolicy], RedeliveryPolicy):
    """How often and when the messages of a destination are delivered again."""

    destination: DestinationName | None = None
    """Name or pattern; null: all destinations without another policy."""


class RedeliverySettings(_BuiltInPlugin, RedeliveryPlugin):
    """The broker delivers a message again, later, instead of dead-lettering it."""

    type: Literal["redelivery"] = "redelivery"
    redelivery_policy_map: tuple[RedeliveryPolicySettings, ...] = ()
    """The policies; the most specific one applies, one without a destination to all others."""

    def build(self) -> BrokerPlugin:
        """Create the plug-in."""
        policies = tuple(policy.build() for policy in self.redelivery_policy_map)
        options = {**arguments_of(RedeliveryPlugin, self), "redelivery_policy_map": policies}
        return RedeliveryPlugin(**options)


class DestinationsSettings(_BuiltInPlugin, DestinationsPlugin):
    """A file keeps the list of destinations while the broker is stopped."""

    is_read_at_start = True
    type: Literal["destinations"] = "destinations"

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        host = management.context.host
        default = host.data_path / host.broker_name / DEFAULT_FILE
        return DestinationsPlugin(location=self.location or default).install_plugin(broker)


class _DotFileSettings(_BuiltInPlugin, DotFilePlugin):
    is_read_at_start = True
    default_file: ClassVar[str]

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        host = management.context.host
        default = host.data_path / host.broker_name / self.default_file
        plugin: Any = self.made_by
        made: BrokerPlugin = plugin(**{**arguments_of(plugin, self), "file": self.file or default})
        return made.install_plugin(broker)


class ConnectionDotFileSettings(_DotFileSettings, ConnectionDotFilePlugin):
    """A file for Graphviz shows which client uses which destination."""

    default_file = "ActiveMQConnections.dot"
    type: Literal["connection_dot_file"] = "connection_dot_file"


class DestinationDotFileSettings(_DotFileSettings, DestinationDotFilePlugin):
    """A file for Graphviz shows the destinations as a tree."""

    default_file = "ActiveMQDestinations.dot"
    type: Literal["destination_dot_file"] = "destination_dot_file"


class UDPTraceSettings(_BuiltInPlugin, UDPTraceBrokerPlugin):
    """Commands are sent to an address as datagrams, for debugging: messages in the clear."""

    is_read_at_start = True
    type: Literal["udp_trace"] = "udp_trace"


class MulticastTraceSettings(_BuiltInPlugin, MulticastTraceBrokerPlugin):
    """Commands are sent to a multicast group as datagrams, for debugging: messages in the clear."""

    is_read_at_start = True
    type: Literal["multicast_trace"] = "multicast_trace"


class VirtualSelectorCacheSettings(_BuiltInPlugin, VirtualSelectorCacheBrokerPlugin):
    """Queues of selector-aware virtual topics get what their former consumers selected."""

    is_read_at_start = True
    type: Literal["virtual_selector_cache"] = "virtual_selector_cache"


class StatisticsSettings(_BuiltInPlugin, made_by=StatisticsBrokerPlugin):
    """Clients ask for statistics with messages."""

    type: Literal["statistics"] = "statistics"

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        return StatisticsBrokerPlugin().install_managed_plugin(broker, management)


BUILT_IN_PLUGINS: Final[dict[str, type[PluginSettings]]] = {
    kind.model_fields["type"].default: kind
    for kind in (
        TimeStampingSettings,
        ForcePersistencyModeSettings,
        DestinationPathSeparatorSettings,
        LoggingSettings,
        TraceBrokerPathSettings,
        DiscardingDLQSettings,
        StatisticsSettings,
        SimpleAuthenticationSettings,
        PropertiesAuthenticationSettings,
        JaasAuthenticationSettings,
        JaasCertificateAuthenticationSettings,
        JaasDualAuthenticationSettings,
        AuthorizationSettings,
        AuditSettings,
        RedeliverySettings,
        DestinationsSettings,
        ConnectionDotFileSettings,
        DestinationDotFileSettings,
        UDPTraceSettings,
        MulticastTraceSettings,
        VirtualSelectorCacheSettings,
        RuntimeConfigurationSettings,
    )
}
"""The built-in plug-ins by type."""
