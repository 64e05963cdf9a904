"""Convert `<plugins>`: broker plug-ins, users and rights."""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.draft import (
    Draft,
    Handler,
    Lost,
    Path,
    Rule,
    Spec,
    children,
    inside,
    item,
    section,
)
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings.plugins import RedeliveryPolicySettings, plugin_settings
from pyjms_broker.settings.security import (
    AccessSettings,
    AuthorizationEntrySettings,
    UserSettings,
)


def _foreign_plugin(draft: Draft, element: Element, _path: Path) -> None:
    name = element.attributes.get("class", "")
    draft.findings.report(
        element, f"{name} is a Java class", "write the plug-in in Python (docs/extending.md)"
    )


def _plugin(type_: str, rules: dict[str, Rule] | None = None) -> Handler:
    no_effect = {
        "adminConnectionContext": "the broker acts in its own name",
        "discoverLoginConfig": "login.config next to the file is read",
    }
    return item(
        "plugins", Spec(plugin_settings(type_), type_, no_effect=no_effect, children=rules or {})
    )


def _user(draft: Draft, element: Element, path: Path) -> None:
    missing = [name for name in ("username", "password") if not element.attributes.get(name)]
    if missing:
        who = element.attributes.get("username", "")
        draft.findings.report(
            element, f"the user {who!r} is left out: it has no {missing[0]}", "add the user"
        )
        return
    item("users", Spec(UserSettings))(draft, element, path)


def _simple_authentication(draft: Draft, element: Element, path: Path) -> None:
    rules: dict[str, Rule] = {
        "users": children({"authenticationUser": _user}),
        "userPasswords": Lost("it is a Java map", "use <users>"),
        "userGroups": Lost("it is a Java map", "use <users>"),
    }
    _plugin("simple_authentication", rules)(draft, element, path)
    plugin = draft.get((*path, "plugins"))[-1]
    if not plugin.get("users") and not plugin.get("anonymous_access_allowed"):
        draft.findings.report(element, "it has no users: nobody could connect", "add users")
        draft.remove_last((*path, "plugins"))


def _jaas(type_: str) -> Handler:
    """Convert a plug-in whose users are in `login.config` next to the XML file."""

    def convert(draft: Draft, element: Element, path: Path) -> None:
        _plugin(type_)(draft, element, path)
        file = draft.directory / "login.config"
        index = len(draft.get((*path, "plugins"))) - 1
        draft.put((*path, "plugins", index, "login_config"), str(file), element)
        if not file.is_file():
            draft.findings.report(
                element, f"{file} does not exist", "set its login_config", attribute="configuration"
            )

    return convert


_JAVA_GROUP: Final = Lost("groups are names, not Java objects")
_ACCESS: Final = Spec(AccessSettings, lost={"groupClass": _JAVA_GROUP})
_TEMPORARY_RIGHTS: Final = Lost("rights on temporary destinations are temp_destination_entry")
_RIGHTS: Final = children(
    {
        "authorizationEntry": item(
            "entries",
            Spec(
                AuthorizationEntrySettings,
                needs_destination=True,
                lost={
                    "groupClass": _JAVA_GROUP,
                    "tempQueue": _TEMPORARY_RIGHTS,
                    "tempTopic": _TEMPORARY_RIGHTS,
                },
            ),
        )
    }
)
_LDAP: Final = Lost("rights are not read from LDAP", "write them into entries of authorization")
_AUTHORIZATION_MAP: Final = inside(
    {
        "cachedLDAPAuthorizationMap": _LDAP,
        "lDAPAuthorizationMap": _LDAP,
        "simpleAuthorizationMap": _LDAP,
        "*": children(
            {
                "authorizationEntries": _RIGHTS,
                "entries": _RIGHTS,
                "defaultEntry": inside(section("default_entry", _ACCESS)),
                "tempDestinationAuthorizationEntry": inside(
                    section("temp_destination_entry", _ACCESS)
                ),
            }
        ),
    }
)
_TEMPORARY: Final = Lost("temporary destinations have the policy without a destination")
_REDELIVERY_POLICIES: Final = children(
    {
        "redeliveryPolicy": item(
            "redelivery_policy_map",
            Spec(
                RedeliveryPolicySettings,
                has_destination=True,
                values={"maximumRedeliveryDelay": {"-1": 0}},
                lost={
                    "preDispatchCheck": Lost("it is about clients", same_as="true"),
                    "tempQueue": _TEMPORARY,
                    "tempTopic": _TEMPORARY,
                },
            ),
        )
    }
)
_REDELIVERY_MAP: Final = inside(
    children(
        {
            "redeliveryPolicyEntries": _REDELIVERY_POLICIES,
            "entries": _REDELIVERY_POLICIES,
            "defaultEntry": _REDELIVERY_POLICIES,
        }
    )
)

PLUGINS: Final[dict[str, Rule]] = {
    "timeStampingBrokerPlugin": _plugin("time_stamping"),
    "forcePersistencyModeBrokerPlugin": _plugin("force_persistency_mode"),
    "destinationPathSeparatorPlugin": _plugin("destination_path_separator"),
    "loggingBrokerPlugin": _plugin("logging"),
    "traceBrokerPathPlugin": _plugin("trace_broker_path"),
    "discardingDLQBrokerPlugin": _plugin("discarding_dlq"),
    "statisticsBrokerPlugin": _plugin("statistics"),
    "simpleAuthenticationPlugin": _simple_authentication,
    "jaasAuthenticationPlugin": _jaas("jaas_authentication"),
    "jaasCertificateAuthenticationPlugin": _jaas("jaas_certificate_authentication"),
    "jaasDualAuthenticationPlugin": _jaas("jaas_dual_authentication"),
    "authorizationPlugin": _plugin("authorization", {"map": _AUTHORIZATION_MAP}),
    "redeliveryPlugin": _plugin("redelivery", {"redeliveryPolicyMap": _REDELIVERY_MAP}),
    "destinationsPlugin": _plugin("destinations"),
    "connectionDotFilePlugin": _plugin("connection_dot_file"),
    "destinationDotFilePlugin": _plugin("destination_dot_file"),
    "udpTraceBrokerPlugin": _plugin("udp_trace"),
    "multicastTraceBrokerPlugin": _plugin("multicast_trace"),
    "virtualSelectorCacheBrokerPlugin": _plugin("virtual_selector_cache"),
    "runtimeConfigurationPlugin": _plugin("runtime_configuration"),
    "partitionBrokerPlugin": Lost("clients do not learn of other brokers"),
    "camelRoutesBrokerPlugin": Lost("routes of Apache Camel run in Java"),
    "shiroPlugin": Lost("Apache Shiro runs in Java", "use simple_authentication"),
    "bean": _foreign_plugin,
}
"""Converts the elements of `<plugins>`."""
