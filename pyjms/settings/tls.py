"""The sections `tls` of application.yaml and broker.yaml."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from pyjms.settings.section import Section
from pyjms.transport.tls import TlsOptions, check_cipher_suites

__all__ = ["TlsCommonSettings", "TlsSettings"]

Protocol = Literal["TLSv1.2", "TLSv1.3"]


class TlsCommonSettings(BaseModel):
    """What both ends of an encrypted connection can set."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    trust_store: str | None = None
    """File of the trusted certificates, PEM or PKCS12; null: those of the system."""
    trust_store_password: SecretStr | None = None
    """Password of a PKCS12 trust store."""
    key_store: str | None = None
    """File of the own certificate, then its issuers, and the key: PEM or PKCS12."""
    key_store_password: SecretStr | None = None
    """Password of a PKCS12 key store, or of the key."""
    key_store_key_password: SecretStr | None = None
    """Password of the key; null: that of the key store."""
    key_file: str | None = None
    """PEM file of the key, if it is not in the key store."""
    minimum_version: Protocol = "TLSv1.2"
    """Lowest version of TLS."""
    enabled_protocols: tuple[Protocol, ...] = ()
    """Versions that are allowed; none: all from the lowest."""
    enabled_cipher_suites: tuple[str, ...] = ()
    """Cipher suites, by Java's or OpenSSL's names; none: the system's."""

    @field_validator("enabled_cipher_suites")
    @classmethod
    def _check_suites(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if names:
            check_cipher_suites(names)
        return names

    def options(self) -> TlsOptions:
        """Return the same as options of a transport, with the passwords."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        for name, value in values.items():
            if isinstance(value, SecretStr):
                values[name] = value.get_secret_value()
        return TlsOptions(**values)


class TlsSettings(Section, TlsCommonSettings):
    """Encryption of a broker's connections (`tls`). ActiveMQ: ActiveMQSslConnectionFactory."""

    verify_host_name: bool = True
    """Whether the broker's certificate must be for the host of the URL."""
    server_name: str | None = None
    """Host name to ask for (SNI) and to expect; null: the URL's."""
