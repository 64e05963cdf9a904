"""The sections `tls` of application.yaml and broker.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import SecretStr, field_validator

from pyjms.configuration.section import Section

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsOptions
    from pyjms.transport.uri import TransportURI

Protocol = Literal["TLSv1.2", "TLSv1.3"]


class TlsCommonSettings(Section):
    """The TLS settings that clients and brokers have in common."""

    trust_store: str | None = None
    """File with the trusted certificates, PEM or PKCS12; null: the system's."""
    trust_store_password: SecretStr | None = None
    """Password of a PKCS12 trust store."""
    key_store: str | None = None
    """File with the own certificate, followed by its issuers, and the private key: PEM or
    PKCS12."""
    key_store_password: SecretStr | None = None
    """Password of a PKCS12 key store, or of the private key."""
    key_store_key_password: SecretStr | None = None
    """Password of the private key; null: key_store_password."""
    key_file: str | None = None
    """PEM file with the private key, if it is not in the key store."""
    minimum_version: Protocol = "TLSv1.2"
    """Lowest TLS version."""
    enabled_protocols: tuple[Protocol, ...] = ()
    """Allowed TLS versions; empty: all from minimum_version."""
    enabled_cipher_suites: tuple[str, ...] = ()
    """Cipher suites, by Java's or OpenSSL's names; empty: the system's."""

    @field_validator("enabled_cipher_suites")
    @classmethod
    def _check_suites(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if names:
            from pyjms.transport.tls import check_cipher_suites  # noqa: PLC0415 - loads ssl

            check_cipher_suites(names)
        return names

    def options(self) -> TlsOptions:
        """Return these settings as options of a transport, including the passwords."""
        from pyjms.transport.tls import TlsOptions  # noqa: PLC0415 - loads ssl

        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        for name, value in values.items():
            if isinstance(value, SecretStr):
                values[name] = value.get_secret_value()
        return TlsOptions(**values)


class TlsSettings(TlsCommonSettings):
    """Encryption of a broker's connections (`tls`). ActiveMQ: ActiveMQSslConnectionFactory."""

    verify_host_name: bool = True
    """Whether the broker's certificate must match the host name in the URL."""
    server_name: str | None = None
    """Host name for SNI and certificate verification; null: the URL's."""

    def added_to(self, uri: TransportURI) -> TransportURI:
        """Return `uri` with these settings as its options."""
        from pyjms.transport.tls import with_tls  # noqa: PLC0415 - loads ssl

        return with_tls(uri, self.options())
