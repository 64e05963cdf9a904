"""Stacks of login modules, as in Java's login configuration. (activemq-edges SE3)"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException, JMSSecurityException
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.ldap import ldap_module
from pyjms_broker.security.login_config import Flag, ModuleEntry, read_login_config
from pyjms_broker.security.login_modules import (
    LoginModule,
    LoginRefusedError,
    LoginUnavailableError,
    certificate_module,
    guest_module,
    properties_module,
)
from pyjms_broker.security.logins import Credentials

__all__ = ["JaasAuthenticator", "LoginStack"]

_PACKAGE: Final = "org.apache.activemq.jaas."
MODULES: Final[dict[str, Callable[[Mapping[str, str], Path], LoginModule]]] = {
    "PropertiesLoginModule": properties_module,
    "GuestLoginModule": guest_module,
    "TextFileCertificateLoginModule": certificate_module,
    "LDAPLoginModule": ldap_module,
    "EncryptableLDAPLoginModule": ldap_module,
}
"""ActiveMQ's login modules by class: factories that get the options and the directory."""


class LoginStack:
    """The login modules of one configuration, in order. Source: Java LoginContext."""

    def __init__(self, modules: list[tuple[Flag, LoginModule]]) -> None:
        self._modules = modules

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user that the modules accept, with the groups of all successful modules.

        Raises:
            JMSSecurityException: no module accepts the client, and one could not query its
                directory.
        """
        found: list[SecurityContext] = []
        failed = unavailable = False
        for flag, module in self._modules:
            try:
                user = module.login(credentials)
            except LoginRefusedError as refusal:
                unavailable |= isinstance(refusal, LoginUnavailableError)
                failed |= flag in {Flag.REQUIRED, Flag.REQUISITE}
                if flag is Flag.REQUISITE:
                    break
                continue
            if user is None:
                continue
            found.append(user)
            if flag is Flag.SUFFICIENT and not failed:
                break
        if found and not failed:
            return SecurityContext(
                found[0].user_name, frozenset().union(*(user.groups for user in found))
            )
        if unavailable:
            raise JMSSecurityException("Users cannot be checked at present; see the broker's log")
        return None


class JaasAuthenticator:
    """Authenticates with login modules, which may differ for clients with TLS.

    Source: ActiveMQ JaasAuthenticationBroker, JaasCertificateAuthenticationBroker,
    JaasDualAuthenticationBroker.

    Args:
        login_config: the configuration file.
        configuration: the configuration's name for clients without TLS; None: all clients need a
            certificate.
        ssl_configuration: the name for clients of TLS connectors and those with a certificate;
            None: the same.
    """

    concurrency = 8
    """The number of logins that may wait for a directory at the same time."""

    def __init__(
        self, login_config: Path, configuration: str | None, ssl_configuration: str | None
    ) -> None:
        self._path = login_config
        self._names = (configuration, ssl_configuration)
        self._stacks: dict[str, LoginStack] = {}

    def load(self) -> None:
        """Read the configuration and the files of its modules. Blocks.

        Raises:
            ConfigurationException: a file cannot be read, or contains something unsupported.
        """
        entries = read_login_config(self._path)
        for name in self._names:
            if name is None:
                continue
            if name not in entries:
                known = ", ".join(sorted(entries)) or "none"
                raise ConfigurationException(
                    f"{self._path} has no configuration '{name}'", hint=f"there are: {known}"
                )
            self._stacks[name] = LoginStack(
                [(entry.flag, self._module(entry)) for entry in entries[name]]
            )

    def _module(self, entry: ModuleEntry) -> LoginModule:
        make = MODULES.get(entry.class_name.removeprefix(_PACKAGE))
        if make is None:
            raise ConfigurationException(
                f"{self._path}:{entry.line}: the login module {entry.class_name} is not supported",
                hint=f"supported, of {_PACKAGE}*: {', '.join(MODULES)}",
            )
        try:
            return make(entry.options, self._path.parent)
        except ConfigurationException as error:
            raise ConfigurationException(
                f"{self._path}:{entry.line}: {error.reason}", hint=error.hint
            ) from error

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return None, because guest modules are called in order with the others."""
        return None

    def is_quick(self, credentials: Credentials) -> bool:
        """Return False, because modules may read files or query a directory."""
        return False

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Authenticate with the modules. Blocks.

        Raises:
            JMSSecurityException: the client has no certificate, or a directory does not respond.
        """
        plain, encrypted = self._names
        is_encrypted = credentials.uses_tls or credentials.subject is not None
        name = encrypted if encrypted is not None and (plain is None or is_encrypted) else plain
        if name == encrypted and credentials.subject is None:
            raise JMSSecurityException("Unable to authenticate transport without SSL certificate.")
        return None if name is None else self._stacks[name].authenticate(credentials)
