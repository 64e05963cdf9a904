"""Authentication with Java's `login.config` in broker.yaml (`plugins`). (activemq-edges SE3)"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pyjms_broker.security.jaas import JaasAuthenticator
from pyjms_broker.security.logins import Authenticator
from pyjms_broker.settings.plugins.logins import LoginSettings

__all__ = [
    "JaasAuthenticationSettings",
    "JaasCertificateAuthenticationSettings",
    "JaasDualAuthenticationSettings",
]


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
