"""Apply changes of the configuration file to a running broker.

Users and rights, the settings of plug-ins, policies, virtual destinations, new destinations,
connectors, network connectors and the limits of `system_usage` take effect at once. Other changes
are logged with their keys and take effect at the next start. Source: ActiveMQ
runtimeConfigurationPlugin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio
import anyio.to_thread
from pydantic import BaseModel, Field

from pyjms.configuration.section import Duration
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.management import Management
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.model import Action, Entry, ViewKind, part, view_kind
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service.filter_chain import intercept_destinations
from pyjms_broker.service.usage_limits import change_limits
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.model import (
    BrokerLoggingSettings,
    BrokerSettings,
    ConnectorSettings,
    NetworkConnectorSettings,
    SettingsSource,
    SystemUsageSettings,
)
from pyjms_broker.settings.policies import STRATEGIES, PolicySettings, VirtualDestinationSettings
from pyjms_broker.settings.security import LoginSettings

if TYPE_CHECKING:
    from pyjms_broker.service import BrokerService

logger = get_logger(__name__)


def is_same(before: object, after: object) -> bool:
    """Whether two settings are equal, even if their plug-ins have different model classes."""
    return _plain(before) == _plain(after)


def changed_keys(key: str, before: object, after: object) -> list[str]:
    """Return the keys below `key` that differ: `web.port`, `connectors[0].uri`."""
    if is_same(before, after):
        return []
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        old, new = _values(before), _values(after)
        if type(before).model_fields.keys() == type(after).model_fields.keys():
            return [
                changed
                for name in {**old, **new}
                for changed in changed_keys(f"{key}.{name}", old.get(name), new.get(name))
            ]
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for i, pair in pairs for each in changed_keys(f"{key}[{i}]", *pair)]
    return [key]


def _values(model: BaseModel) -> dict[str, object]:
    own = {name: getattr(model, name) for name in type(model).model_fields}
    return own | (model.model_extra or {})


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return {name: _plain(each) for name, each in _values(value).items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


async def change_connectors(
    service: BrokerService, before: Sequence[ConnectorSettings], after: Sequence[ConnectorSettings]
) -> tuple[Sequence[ConnectorSettings], list[str]]:
    """Close connectors that are no longer listed, and their connections; then open new ones.

    A connector with changed settings is closed and reopened. Returns the list in effect, which is
    `before` unless all changes succeeded, and the problems.
    """
    if any(made not in service.connectors for _, made in service.configured_connectors):
        return before, [
            "connectors: options of the command, or an operator, have replaced some of them"
        ]
    wanted = list(after)
    for settings, made in tuple(service.configured_connectors):
        same = next((each for each in wanted if is_same(settings, each)), None)
        if same is not None:
            wanted.remove(same)
            continue
        service.configured_connectors.remove((settings, made))
        service.connectors.remove(made)
        await made.stop()
        logger.info("Connector %s stopped", made.name)
    problems: list[str] = []
    for new in wanted:
        try:
            made = service.add_configured_connector(new)
        except JMSException as error:
            problems.append(f"connectors: {error}")
            continue
        try:
            await made.start()
        except JMSException as error:
            service.configured_connectors.remove((new, made))
            service.connectors.remove(made)
            problems.append(f"connectors: {error}")
        else:
            logger.info("Connector %s started: %s", made.name, made.connect_uri)
    return before if problems else after, problems


async def change_networks(
    service: BrokerService,
    before: Sequence[NetworkConnectorSettings],
    after: Sequence[NetworkConnectorSettings],
) -> tuple[Sequence[NetworkConnectorSettings], list[str]]:
    """Stop network connectors that are no longer listed, then start new ones.

    A network connector with changed settings is restarted. Returns those in effect, and the
    problems. Messages that were not forwarded remain in the broker for the next network connector.
    """
    kept = [old for old in before if any(is_same(old, new) for new in after)]
    for old in before:
        if old not in kept:
            await service.networks.remove(old.name)
    in_effect: list[NetworkConnectorSettings] = []
    problems: list[str] = []
    for new in after:
        if not any(is_same(old, new) for old in kept):
            try:
                service.add_network_connector(new.uri, new.build()).start()
            except JMSException as error:
                problems.append(f"network_connectors: {error}")
                continue
        in_effect.append(new)
    return tuple(in_effect), problems


_AT_START: Final = "takes effect at the next start"
_Apply: TypeAlias = Callable[[Any, Any], Awaitable[tuple[object, list[str]]]]


@dataclass
class ConfigurationChanges:
    """The result of an update."""

    applied: list[str] = field(default_factory=list)
    """Keys whose new values are in effect."""
    pending: list[str] = field(default_factory=list)
    """Keys whose new values are not yet in effect, each with the reason."""


class RuntimeConfiguration:
    """The settings in effect in a broker; `update` applies changes."""

    def __init__(
        self, service: BrokerService, settings: BrokerSettings, source: SettingsSource
    ) -> None:
        self.check_period = 0.0
        self.modified: float | None = None
        self.status = ""
        self._service = service
        self._source = source
        self._in_effect = {name: getattr(settings, name) for name in BrokerSettings.model_fields}
        self._reported: list[str] = []
        self._turn = anyio.Lock()
        self._appliers: dict[str, _Apply] = {
            "connectors": partial(change_connectors, service),
            "network_connectors": partial(change_networks, service),
            "policies": self._change_policies,
            "virtual_destinations": self._change_virtual_destinations,
            "destinations": self._add_destinations,
            "system_usage": self._change_system_usage,
            "logging": self._change_logging,
        }
        """By key: function that applies a change; returns the value in effect, and the problems."""

    @property
    def origin(self) -> str:
        """The configuration file."""
        return str(self._source.file)

    async def update(self, *, read_users: bool = False) -> ConfigurationChanges:
        """Reload the configuration and apply the changes; one update at a time.

        Logs which changes were applied and which were not. If cancelled, some may be applied.
        """
        async with self._turn:
            try:
                settings = await anyio.to_thread.run_sync(self._source.read)
            except ConfigurationException as error:
                self.status = str(error)
                raise
            changes = ConfigurationChanges()
            for key in BrokerSettings.model_fields:
                before, after = self._in_effect[key], getattr(settings, key)
                if key == "plugins":
                    await self._change_plugins(before, after, changes, read_users=read_users)
                elif not is_same(before, after):
                    await self._change(key, before, after, changes)
            self._report(changes)
            return changes

    async def _change(
        self, key: str, before: object, after: object, changes: ConfigurationChanges
    ) -> None:
        apply = self._appliers.get(key)
        if apply is None:
            changes.pending += (f"{k}: {_AT_START}" for k in changed_keys(key, before, after))
            return
        try:
            self._in_effect[key], problems = await apply(before, after)
        except JMSException as error:
            changes.pending.append(f"{key}: {error}")
            return
        changes.pending += problems
        if is_same(self._in_effect[key], after):
            changes.applied += changed_keys(key, before, after)

    async def _change_logging(
        self, before: BrokerLoggingSettings, after: BrokerLoggingSettings
    ) -> tuple[BrokerLoggingSettings, list[str]]:
        change = self._service.change_logging
        if change is None:
            return before, ["logging: the log belongs to the program around the broker"]
        await anyio.to_thread.run_sync(change, after)
        return after, []

    def _report(self, changes: ConfigurationChanges) -> None:
        name = self._service.broker_name
        self.status = "; ".join(changes.pending)
        if changes.applied:
            self.modified = _clock.time_ms() / 1000
            logger.info(
                "Broker %s: changes of the configuration are applied: %s",
                name,
                ", ".join(changes.applied),
            )
        if changes.pending and changes.pending != self._reported:
            logger.warning(
                "Broker %s: changes of the configuration are not applied: %s",
                name,
                "; ".join(changes.pending),
            )
        self._reported = changes.pending

    async def _change_plugins(
        self,
        before: Sequence[PluginSettings],
        after: Sequence[PluginSettings],
        changes: ConfigurationChanges,
        *,
        read_users: bool,
    ) -> None:
        if [_type_of(each) for each in before] != [_type_of(each) for each in after]:
            changes.pending.append(f"plugins: another list of plug-ins {_AT_START}")
            return
        in_effect = list(before)
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            key = f"plugins[{index}]"
            same = is_same(old, new)
            if same and not (read_users and isinstance(new, LoginSettings)):
                continue
            try:
                done = await self._change_plugin(index, new)
            except JMSException as error:
                changes.pending.append(f"{key} ({_type_of(new)}): {error}")
                continue
            if not done:
                changes.pending += (f"{k}: {_AT_START}" for k in changed_keys(key, old, new))
                continue
            in_effect[index] = new
            changes.applied += changed_keys(key, old, new) or [f"{key} ({_type_of(new)})"]
        self._in_effect["plugins"] = self._service.plugins = tuple(in_effect)

    async def _change_plugin(self, index: int, settings: PluginSettings) -> bool:
        installed = self._service.plugin_filters[index]
        changed = await settings.reconfigure(installed)
        if changed is None:
            return False
        if changed is not installed:
            self._service.plugin_filters[index] = changed
            outside: list[BrokerFilter] = []
            each = self._service.broker
            while each is not installed:
                assert isinstance(each, BrokerFilter), "the stop guard is outside all plug-ins"
                outside.append(each)
                each = each.next
            for outer in reversed(outside):
                outer.connect(changed)
                changed = outer
        return True

    async def _change_policies(
        self, before: Sequence[PolicySettings], after: Sequence[PolicySettings]
    ) -> tuple[object, list[str]]:
        region = self._service.region_broker
        earlier = {
            entry.target: entry
            for entry in (*region.policy_map.entries, region.policy_map.default_entry)
            if entry is not None
        }
        entries = [_policy_entry(each, before, earlier) for each in after]
        kept = region.change_policies(PolicyMap(entries))
        return after, [
            f"policies, {', '.join(sorted(names))} of {destination.qualified_name}: {_AT_START}"
            for destination, names in kept.items()
        ]

    async def _change_virtual_destinations(
        self,
        _before: Sequence[VirtualDestinationSettings] | None,
        after: Sequence[VirtualDestinationSettings] | None,
    ) -> tuple[object, list[str]]:
        service = self._service
        virtual = None if after is None else tuple(each.build() for each in after)
        service.virtual_destinations = virtual
        intercept_destinations(service.region_broker, service)
        if not service.use_virtual_dest_subs:
            return after, []
        return after, [
            f"virtual_destinations, the advisories of use_virtual_dest_subs: {_AT_START}"
        ]

    async def _add_destinations(
        self, _before: Sequence[Destination], after: Sequence[Destination]
    ) -> tuple[object, list[str]]:
        """Create new destinations; destinations no longer listed remain, as after a restart."""
        context = ConnectionContext()
        context.is_broker = True
        for destination in after:
            self._service.broker.add_destination(context, destination)
        self._service.destinations = tuple(after)
        return after, []

    async def _change_system_usage(
        self, _before: SystemUsageSettings, after: SystemUsageSettings
    ) -> tuple[object, list[str]]:
        values = {name: getattr(after, name) for name in type(after).model_fields}
        change_limits(self._service, self._service.system_usage, values)
        return after, []


def _type_of(plugin: PluginSettings) -> str:
    return str(getattr(plugin, "type", type(plugin).__name__))


def _policy_entry(
    settings: PolicySettings,
    before: Sequence[PolicySettings],
    earlier: dict[Destination | None, PolicyEntry],
) -> PolicyEntry:
    """Return the entry in effect if unchanged; otherwise a new one with unchanged strategies."""
    entry = settings.build()
    known = earlier.get(entry.target)
    old = next((each for each in before if each.build().target == entry.target), None)
    if known is None or old is None:
        return entry
    if is_same(old, settings):
        return known
    same = {
        name: getattr(known, name)
        for name in STRATEGIES
        if is_same(getattr(old, name), getattr(settings, name))
    }
    return replace(entry, **same)


def _modified_time(c: Managed[RuntimeConfiguration]) -> str | None:
    seconds = c.it.modified
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


async def _update(c: Managed[RuntimeConfiguration]) -> str:
    await c.it.update(read_users=True)
    return c.it.status


_VIEW: Final[ViewKind[Any]] = view_kind(
    "org.apache.activemq.plugin.jmx.RuntimeConfigurationView",
    "The configuration file, which is reloaded while the broker is running.",
    attributes.RUNTIME_CONFIGURATION,
    {
        "Modified": _modified_time,
        "CheckPeriod": lambda c: round(c.it.check_period * 1000),
    },
    {"String updateNow()": Action("Reload the file; return Status.", _update)},
)


class RuntimeConfigurationBroker(BrokerFilter):
    """Applies changes of the file every `check_period` seconds; 0: only on request.

    Source: ActiveMQ RuntimeConfigurationBroker.
    """

    def __init__(
        self, next_broker: Broker, configuration: RuntimeConfiguration, check_period: float
    ) -> None:
        super().__init__(next_broker)
        self._configuration = configuration
        self._configuration.check_period = check_period
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
        self._configuration.check_period = period
        self._start_watch()

    def _start_watch(self) -> None:
        period = self._configuration.check_period
        if period > 0 and not self._stopped and (self._watch is None or self._watch.done):
            self._watch = spawn(self._check_periodically, name="check of the configuration file")

    async def _check_periodically(self) -> None:
        reported = ""
        while (period := self._configuration.check_period) > 0:
            await _clock.sleep(period)
            try:
                await self._configuration.update()
                reported = ""
            except ConfigurationException as error:
                if str(error) != reported:  # log it once, not at each check
                    logger.error("The changed configuration was not applied: %s", error)
                reported = str(error)
            except Exception:
                logger.exception("Changes of the configuration could not be applied")


def _view_of(configuration: RuntimeConfiguration, context: ManagementContext) -> Iterator[Entry]:
    yield context.names.service("RuntimeConfiguration", name="Plugin"), _VIEW, configuration


class RuntimeConfigurationSettings(PluginSettings):
    """Changes of this file take effect while the broker runs, where they can.

    ActiveMQ: runtimeConfigurationPlugin.
    """

    type: Literal["runtime_configuration"] = "runtime_configuration"
    check_period: Duration = Field(default=0.0, ge=0)
    """Time between checks of the file; 0: it is reloaded only on SIGHUP."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Refuse: a broker without a service has no configuration file."""
        raise _no_file()

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the filter that checks the file for changes."""
        from pyjms_broker.service import BrokerService  # noqa: PLC0415 - it imports this package

        service = management.context.host
        if not isinstance(service, BrokerService):
            raise _no_file()
        settings, current = service.settings, service.updates
        if not isinstance(settings, BrokerSettings) or settings.source is None:
            raise _no_file()
        if current is None:
            current = RuntimeConfiguration(service, settings, settings.source)
            service.updates = current
            management.add_part(part(partial(_view_of, current), "service", "name"))
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
