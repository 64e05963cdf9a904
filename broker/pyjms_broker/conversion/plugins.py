"""Convert `<plugins>`: broker plug-ins, users and rights."""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Final

from pyjms_broker.conversion.draft import Draft, Handler, Lost, Path, Spec, destination_of
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings.plugins import (
    BUILT_IN_PLUGINS,
    AccessSettings,
    AuthorizationEntrySettings,
    RedeliveryPolicySettings,
    UserSettings,
)

__all__ = ["PLUGINS", "USER", "convert_plugins"]

# --- Conversion of broker plug-ins: `<plugins>`.

PLUGIN_NO_EFFECT: Final = {
    "adminConnectionContext": "the broker acts in its own name",
    "discoverLoginConfig": "login.config next to the file is read",
}


def _plugin(type_: str, **options: str) -> Spec:
    return Spec(BUILT_IN_PLUGINS[type_], type_, keys=options, no_effect=PLUGIN_NO_EFFECT)


PLUGINS: Final = {
    "timeStampingBrokerPlugin": _plugin("time_stamping"),
    "forcePersistencyModeBrokerPlugin": _plugin("force_persistency_mode"),
    "destinationPathSeparatorPlugin": _plugin("destination_path_separator"),
    "loggingBrokerPlugin": _plugin("logging"),
    "traceBrokerPathPlugin": _plugin("trace_broker_path"),
    "discardingDLQBrokerPlugin": _plugin("discarding_dlq"),
    "statisticsBrokerPlugin": _plugin("statistics"),
    "simpleAuthenticationPlugin": _plugin("simple_authentication"),
    "jaasAuthenticationPlugin": _plugin("jaas_authentication"),
    "jaasCertificateAuthenticationPlugin": _plugin("jaas_certificate_authentication"),
    "jaasDualAuthenticationPlugin": _plugin("jaas_dual_authentication"),
    "authorizationPlugin": _plugin("authorization"),
    "redeliveryPlugin": _plugin("redelivery"),
    "destinationsPlugin": _plugin("destinations"),
    "connectionDotFilePlugin": _plugin("connection_dot_file"),
    "destinationDotFilePlugin": _plugin("destination_dot_file"),
    "udpTraceBrokerPlugin": _plugin("udp_trace"),
    "multicastTraceBrokerPlugin": _plugin("multicast_trace"),
    "virtualSelectorCacheBrokerPlugin": _plugin("virtual_selector_cache"),
    "runtimeConfigurationPlugin": _plugin("runtime_configuration"),
}
JAAS_PLUGINS: Final = tuple(name for name in PLUGINS if name.startswith("jaas"))
PLUGINS_LOST: Final[dict[str, Lost]] = {
    "partitionBrokerPlugin": Lost("clients do not learn of other brokers"),
    "camelRoutesBrokerPlugin": Lost("routes of Apache Camel run in Java"),
    "shiroPlugin": Lost("Apache Shiro runs in Java", "use simple_authentication"),
}

USER: Final = Spec(UserSettings)
ACCESS: Final = Spec(
    AccessSettings, lost={"groupClass": Lost("groups are names, not Java objects")}
)
AUTHORIZATION_ENTRY: Final = Spec(
    AuthorizationEntrySettings,
    handled=frozenset({"queue", "topic", "destination"}),
    lost={
        "groupClass": Lost("groups are names, not Java objects"),
        "tempQueue": Lost("rights on temporary destinations are temp_destination_entry"),
        "tempTopic": Lost("rights on temporary destinations are temp_destination_entry"),
    },
)
AUTHORIZATION_LOST: Final = {
    name: Lost("rights are not read from LDAP", "write them into entries of authorization")
    for name in ("cachedLDAPAuthorizationMap", "lDAPAuthorizationMap", "simpleAuthorizationMap")
}
REDELIVERY_POLICY: Final = Spec(
    RedeliveryPolicySettings,
    handled=frozenset({"queue", "topic", "destination"}),
    values={"maximumRedeliveryDelay": {"-1": 0}},
    lost={
        "preDispatchCheck": Lost("it is about clients", same_as="true"),
        "tempQueue": Lost("temporary destinations have the policy without a destination"),
        "tempTopic": Lost("temporary destinations have the policy without a destination"),
    },
)


def convert_plugins(conf: FilePath, draft: Draft, element: Element, path: Path) -> None:
    """Convert `<plugins>`; `conf` is the directory of the login configuration."""
    handlers = {
        **_PLUGINS,
        **{name: partial(_jaas, conf) for name in JAAS_PLUGINS},
        "bean": _foreign_plugin,
    }
    draft.convert_children(element, handlers, (*path, "plugins"))


def _foreign_plugin(draft: Draft, element: Element, _path: Path) -> None:
    name = element.attributes.get("class", "")
    draft.findings.unsupported(
        element, f"{name} is a Java class", "write the plug-in in Python (docs/extending.md)"
    )


def _plugins_plugin(
    spec: Spec, children: dict[str, Handler | Lost], draft: Draft, element: Element, path: Path
) -> None:
    here = draft.append(path, {}, element)
    draft.convert_attributes(element, spec, here)
    draft.convert_children(element, children, here)


def _users(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        if each.name != "authenticationUser":
            draft.findings.unsupported(each, "only <authenticationUser> is allowed here")
            continue
        missing = [name for name in ("username", "password") if not each.attributes.get(name)]
        if missing:
            who = each.attributes.get("username", "")
            draft.findings.unsupported(
                each, f"the user {who!r} is left out: it has no {missing[0]}", "add the user"
            )
            continue
        here = draft.append((*path, "users"), {}, each)
        draft.convert_attributes(each, USER, here)


def _simple_authentication(draft: Draft, element: Element, path: Path) -> None:
    _plugins_plugin(PLUGINS[element.name], _USERS, draft, element, path)
    here = (*path, len(draft.get(path)) - 1)
    if not draft.get((*here, "users")) and not draft.get((*here, "anonymous_access_allowed")):
        draft.findings.unsupported(element, "it has no users: nobody could connect", "add users")
        draft.drop(here)


def _authorization_map(draft: Draft, element: Element, path: Path) -> None:
    inner = draft.only_child(element)
    if inner is None:
        return
    if inner.name in AUTHORIZATION_LOST:
        lost = AUTHORIZATION_LOST[inner.name]
        draft.findings.unsupported(inner, lost.reason, lost.hint)
        return
    draft.convert_children(inner, _AUTHORIZATION_MAP, path)


def _authorization_entries(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name != "authorizationEntry" or name is None:
            draft.findings.unsupported(each, "it has neither queue nor topic")
            continue
        here = draft.append((*path, "entries"), {"destination": name}, each)
        draft.convert_attributes(each, AUTHORIZATION_ENTRY, here)


def _access(key: str, draft: Draft, element: Element, path: Path) -> None:
    inner = draft.only_child(element)
    if inner is not None:
        draft.put((*path, key), {}, inner)
        draft.convert_attributes(inner, ACCESS, (*path, key))


def _redelivery_map(draft: Draft, element: Element, path: Path) -> None:
    inner = draft.only_child(element)
    if inner is not None:
        here = (*path, "redelivery_policy_map")
        draft.convert_children(inner, _REDELIVERY_MAP, here)


def _redelivery_policies(draft: Draft, element: Element, path: Path) -> None:
    draft.convert_children(element, {"redeliveryPolicy": _redelivery_policy}, path)


def _redelivery_policy(draft: Draft, element: Element, path: Path) -> None:
    draft.append_for_destination(element, path, REDELIVERY_POLICY)


def _jaas(conf: FilePath, draft: Draft, element: Element, path: Path) -> None:
    """Convert a plug-in whose users are in `login.config` next to the XML file."""
    _plugins_plugin(PLUGINS[element.name], {}, draft, element, path)
    file = conf / "login.config"
    draft.put((*path, len(draft.get(path)) - 1, "login_config"), str(file), element)
    if not file.is_file():
        draft.findings.unsupported(
            element, f"{file} does not exist", "set its login_config", attribute="configuration"
        )


_USERS: Final[dict[str, Handler | Lost]] = {
    "users": _users,
    "userPasswords": Lost("it is a Java map", "use <users>"),
    "userGroups": Lost("it is a Java map", "use <users>"),
}
_AUTHORIZATION_MAP: Final[dict[str, Handler | Lost]] = {
    "authorizationEntries": _authorization_entries,
    "entries": _authorization_entries,
    "defaultEntry": partial(_access, "default_entry"),
    "tempDestinationAuthorizationEntry": partial(_access, "temp_destination_entry"),
}
_REDELIVERY_MAP: Final[dict[str, Handler | Lost]] = {
    "redeliveryPolicyEntries": _redelivery_policies,
    "entries": _redelivery_policies,
    "defaultEntry": _redelivery_policies,
}
_CHILDREN: Final[dict[str, dict[str, Handler | Lost]]] = {
    "authorizationPlugin": {"map": _authorization_map},
    "redeliveryPlugin": {"redeliveryPolicyMap": _redelivery_map},
}
_PLUGINS: Final[dict[str, Handler | Lost]] = {
    **PLUGINS_LOST,
    **{
        name: partial(_plugins_plugin, spec, _CHILDREN.get(name, {}))
        for name, spec in PLUGINS.items()
    },
    "simpleAuthenticationPlugin": _simple_authentication,
}
