"""Conversion of broker plug-ins: `<plugins>`."""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.settings.plugins.authorization import AccessSettings, AuthorizationEntrySettings
from pyjms_broker.settings.plugins.built_in import BUILT_IN_PLUGINS, RedeliveryPolicySettings
from pyjms_broker.settings.plugins.security import UserSettings

__all__ = [
    "ACCESS",
    "AUTHORIZATION_ENTRY",
    "AUTHORIZATION_LOST",
    "JAAS_PLUGINS",
    "PLUGINS",
    "PLUGINS_LOST",
    "PLUGIN_NO_EFFECT",
    "REDELIVERY_POLICY",
    "USER",
]

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
