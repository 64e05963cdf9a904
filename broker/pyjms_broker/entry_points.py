"""Load extensions of the broker from entry points of other distributions.

Only the extensions in the configuration are loaded, so a broken distribution affects only brokers
that use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS = "broker.plugins"
STORES = "broker.stores"
CONNECTORS = "broker.connectors"
RECOVERY_POLICIES = "broker.recovery_policies"
QUERIES = "broker.message_queries"
FACTORIES = "broker.factories"
WEB_PARTS = "pyjms_broker.web"

_KINDS = {
    PLUGINS: "Broker plug-in",
    STORES: "Store",
    CONNECTORS: "Connector",
    RECOVERY_POLICIES: "Recovery policy",
    QUERIES: "Message query",
    FACTORIES: "Broker factory",
    WEB_PARTS: "Part of the web site",
}


def installed_names(group: str) -> list[str]:
    """Return the sorted names in an entry point group."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: str, name: str) -> object:
    """Load the entry point `name` of `group`."""
    for point in entry_points(group=group, name=name):
        try:
            return point.load()
        except Exception as error:  # importing another distribution may raise anything
            raise _load_error(point, f"{type(error).__name__}: {error}") from error
    known = installed_names(group)
    raise ConfigurationException(
        f"{_KINDS[group]} '{name}' is not installed (entry point group {group})",
        hint=f"installed: {', '.join(known)}" if known else "none is installed",
    )


def check_loaded(group: str, name: str, ok: bool, expected: str) -> None:
    """Check that an entry point loaded an object of the expected kind."""
    if not ok:
        for point in entry_points(group=group, name=name):
            raise _load_error(point, f"{point.value} is not {expected}")


def _load_error(point: EntryPoint, reason: str) -> ConfigurationException:
    owner = "an unknown distribution"
    if point.dist is not None:
        owner = f"{point.dist.name} {point.dist.version}"
    return ConfigurationException(
        f"{_KINDS[point.group]} '{point.name}' of {owner} cannot be loaded: {reason} "
        f"(entry point group {point.group})",
        hint="update or reinstall that distribution, or uninstall it",
    )
