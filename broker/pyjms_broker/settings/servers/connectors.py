"""Connectors in broker.yaml (`connectors`) and their encryption (`tls`)."""

from __future__ import annotations

from functools import partial
from typing import Self

from pydantic import model_validator

from pyjms.settings.tls import TlsCommonSettings
from pyjms.transport.discovery import check_agent
from pyjms.transport.tls import SERVER_TLS, TLS_SCHEMES, with_tls
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.cluster import ClusterAttributes
from pyjms_broker.settings.values import Section, arguments_of, check_by

__all__ = ["ConnectorSettings", "ConnectorTlsSettings"]


class ConnectorTlsSettings(Section, TlsCommonSettings):
    """Certificate and key of a connector (`tls`)."""

    need_client_auth: bool = False
    """Whether clients must have a certificate signed by an issuer in the trust store."""
    want_client_auth: bool = False
    """Whether clients may have a certificate, which is then checked."""


class ConnectorSettings(Section, ClusterAttributes):
    """Where clients connect (`connectors`)."""

    uri: str
    """Address to listen on; 0.0.0.0: all interfaces, port 0: any free port."""
    name: str | None = None
    """Name in logs; null: the URI."""
    allow_link_stealing: bool = False
    """Whether a new client with the same client id replaces the connected one."""
    discovery_uri: str | None = None
    """Multicast group to announce the connector in: multicast://default?group=shop; null: none."""
    audit_network_producers: bool = False
    """Whether messages sent again by bridges of other brokers are dropped."""
    tls: ConnectorTlsSettings | None = None
    """Certificate and key of an ssl:// connector; options of the URI override them."""

    @model_validator(mode="after")
    def _check_cluster(self) -> Self:
        check_by(self.patterns)
        if self.discovery_uri is not None:
            check_by(partial(check_agent, self.discovery_uri))
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls is not None and self.uri.partition(":")[0].lower() not in TLS_SCHEMES:
            raise ValueError("tls is set, and uri is not encrypted: write ssl://host:port")
        return self

    def cluster_attributes(self) -> ClusterAttributes:
        """Return the attributes that control what its clients learn about other brokers."""
        return ClusterAttributes(**arguments_of(ClusterAttributes, self))

    def transport_uri(self) -> TransportURI:
        """Return the address with the options of `tls`.

        Raises:
            ConfigurationException: the URI cannot be read.
        """
        uri = TransportURI.parse(self.uri)
        return uri if self.tls is None else with_tls(uri, self.tls.options(), SERVER_TLS)
