"""The TLS options: one table for URLs, settings files and code.

The names are those of ActiveMQ's connection factory and of Java's sockets: `ssl.trustStore`,
`socket.enabledProtocols`. In ActiveMQ the stores are set outside of the URL; here they can also be
in the URL, as `ssl.*`. (activemq-edges 1.1; ActiveMQ: ActiveMQSslConnectionFactory, SslContext)
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from pyjms.errors import ConfigurationException
from pyjms.transport.options import Options, boolean, options_for, read_options
from pyjms.transport.uri import TransportURI

# Cipher suites have Java's names (`TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`) or OpenSSL's.

_TLS_1_3 = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The TLS 1.3 cipher suites; Python's ssl module cannot select among them."""
_REPLACEMENTS = (
    (re.compile(r"^(?:TLS|SSL)_"), ""),
    (re.compile(r"^RSA_WITH_"), ""),
    (re.compile(r"_WITH_"), "-"),
    (re.compile(r"AES_(\d+)"), r"AES\1"),
    (re.compile(r"_CBC_"), "-"),
    (re.compile(r"(CHACHA20_POLY1305)_SHA256"), r"\1"),
    (re.compile(r"_"), "-"),
)


def _openssl_name(name: str) -> str:
    if not name.startswith(("TLS_", "SSL_")):
        return name
    for pattern, replacement in _REPLACEMENTS:
        name = pattern.sub(replacement, name)
    return name


def openssl_ciphers(names: Iterable[str]) -> str:
    """Return the TLS 1.2 suites among `names` in OpenSSL's format, "" if there are none."""
    return ":".join(_openssl_name(name) for name in names if name not in _TLS_1_3)


def uses_tls_1_3(names: Iterable[str]) -> bool:
    """Return whether `names` has cipher suites of TLS 1.3."""
    return not _TLS_1_3.isdisjoint(names)


def check_cipher_suites(names: tuple[str, ...]) -> None:
    """Check that the system knows each of `names`."""
    if not names:
        raise ValueError("write the names of cipher suites, separated by commas")
    chosen = _TLS_1_3.intersection(names)
    if chosen and chosen != _TLS_1_3:
        raise ValueError(
            "Python cannot choose among the cipher suites of TLS 1.3: name all of "
            f"{', '.join(sorted(_TLS_1_3))}, or none to use TLS 1.2 only"
        )
    for name in names:
        if name not in _TLS_1_3:
            _check_known(name)


def _check_known(name: str) -> None:
    # OpenSSL lists, such as DEFAULT:!SHA1, are refused: they would hide what is allowed
    candidate = _openssl_name(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.set_ciphers(candidate)
    except ssl.SSLError:
        known = False
    else:
        known = any(each["name"] == candidate for each in context.get_ciphers())
    if not known:
        raise ValueError(f"the cipher suite '{name}' is not known to {ssl.OPENSSL_VERSION}")


TLS_SCHEMES = frozenset(
    {
        "ssl",
        "nio+ssl",
        "auto+ssl",
        "auto+nio+ssl",
        "wss",
        "stomp+ssl",
        "stomp+nio+ssl",
        "mqtt+ssl",
        "mqtt+nio+ssl",
        "amqp+ssl",
        "amqp+nio+ssl",
    }
)
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
"""The TLS versions, lowest first. Older ones are refused, because RFC 8996 forbids them."""


@dataclass(frozen=True)
class TlsOptions:
    """How connections are encrypted and which certificates they trust.

    Connections with equal options share a context. Files may be PEM or PKCS12 (extra `pkcs12`); the
    format is detected.
    """

    trust_store: str | None = None
    """The file with the trusted certificates; None: those of the system."""
    trust_store_password: str | None = field(default=None, repr=False)
    key_store: str | None = None
    """The file with the own certificate, the certificates of its issuers, and the private key."""
    key_store_password: str | None = field(default=None, repr=False)
    key_store_key_password: str | None = field(default=None, repr=False)
    """The private key's password, if it is not that of the key store."""
    key_file: str | None = None
    """The PEM file of the private key, if it is not in the key store."""
    enabled_protocols: tuple[str, ...] = ()
    """The allowed versions; empty: `minimum_version` and later."""
    enabled_cipher_suites: tuple[str, ...] = ()
    """The allowed cipher suites, by Java's or OpenSSL's names; empty: the system's default."""
    minimum_version: str = PROTOCOLS[0]
    verify_host_name: bool = True
    """Whether a client checks the host name of the certificate; the issuer is always checked."""
    server_name: str | None = None
    """The server name that a client sends (SNI) and expects; None: the URL's host."""
    need_client_auth: bool = False
    """Whether a broker refuses clients without a certificate."""
    want_client_auth: bool = False
    """Whether a broker requests a certificate from clients, which they may omit."""

    def __post_init__(self) -> None:
        """Check the names of versions and cipher suites."""
        try:
            for name in (*self.enabled_protocols, self.minimum_version):
                _check_protocol(name)
            if self.enabled_cipher_suites:
                check_cipher_suites(self.enabled_cipher_suites)
        except ValueError as error:
            raise ConfigurationException(f"Invalid TLS option: {error}") from error


def _check_protocol(name: str) -> None:
    if name not in PROTOCOLS:
        raise ValueError(
            f"'{name}' is not supported (RFC 8996 forbids older versions): write "
            f"{' or '.join(PROTOCOLS)}"
        )


def _protocol(text: str) -> str:
    _check_protocol(text.strip())
    return text.strip()


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _protocols(text: str) -> tuple[str, ...]:
    names = _names(text)
    for name in names:
        _check_protocol(name)
    return names


def _cipher_suites(text: str) -> tuple[str, ...]:
    names = _names(text)
    check_cipher_suites(names)
    return names


STORES: Options = {
    **options_for(
        str,
        "trust_store",
        "trust_store_password",
        "key_store",
        "key_store_password",
        "key_store_key_password",
        "key_file",
        prefix="ssl.",
    ),
    **options_for(_protocol, "minimum_version", prefix="ssl."),
}
_SESSION: Options = {
    **options_for(_protocols, "enabled_protocols"),
    **options_for(_cipher_suites, "enabled_cipher_suites"),
}
_CLIENT_AUTH: Options = options_for(boolean, "need_client_auth", "want_client_auth")
CLIENT_TLS: Options = {
    **STORES,
    **options_for(str, "server_name", prefix="ssl."),
    **options_for(boolean, "verify_host_name", prefix="socket."),
    **{f"socket.{name}": option for name, option in _SESSION.items()},
}
"""The options of clients."""
SERVER_TLS: Options = {
    **STORES,
    **_CLIENT_AUTH,
    **{f"transport.{name}": option for name, option in {**_SESSION, **_CLIENT_AUTH}.items()},
    **{f"transport.socket.{name}": option for name, option in {**_SESSION, **_CLIENT_AUTH}.items()},
}
"""The options of connectors."""
_OF_SERVERS = "it is an option for a broker's connector; a client sends its certificate on request"
IGNORED_OF_TLS_CLIENTS: Mapping[str, str] = {
    "socket.needClientAuth": _OF_SERVERS,
    "socket.wantClientAuth": _OF_SERVERS,
}
_CLIENTS_HOST = ("transport.verifyHostName", "transport.socket.verifyHostName")


def read_client_tls(uri: TransportURI) -> TlsOptions:
    """Return the TLS options in a client's URL."""
    return TlsOptions(**{"server_name": uri.host or None, **read_options(uri.options, CLIENT_TLS)})


def read_server_tls(uri: TransportURI) -> tuple[TlsOptions, TransportURI]:
    """Return the TLS options in a connector's URL, and the URL without them."""
    options = dict(uri.options)
    for name in _CLIENTS_HOST:
        if options.pop(name, "false").strip().lower() != "false":
            raise ConfigurationException(
                f"The option {name} is not supported: {uri}",
                hint="certificates of clients name users rather than hosts: use needClientAuth",
            )
    tls = TlsOptions(**read_options(options, SERVER_TLS))
    if tls.key_store is None:
        raise ConfigurationException(
            f"A connector with TLS needs a certificate: {uri}",
            hint="give a PEM file with the certificate and its key as ssl.keyStore=FILE, or as "
            "key_store in the connector's tls: section",
        )
    if tls.trust_store is None and (tls.need_client_auth or tls.want_client_auth):
        raise ConfigurationException(
            f"A connector that checks certificates of clients must say whose it trusts: {uri}",
            hint="give the certificate of their issuer as ssl.trustStore=FILE; the system's "
            "would let in everybody who has any certificate",
        )
    return tls, replace(uri, options={k: v for k, v in options.items() if k not in SERVER_TLS})


def with_tls(uri: TransportURI, tls: TlsOptions, table: Options = CLIENT_TLS) -> TransportURI:
    """Return `uri` with the options of `tls`, unless it has its own, wherever its scheme uses TLS.

    The URLs inside a composite one get them, too, and those of which a broker tells `failover:`.
    """
    if uri.components:
        components = tuple(with_tls(each, tls, table) for each in uri.components)
        nested: dict[str, str] = {}
        if uri.scheme == "failover" and all(each.scheme in TLS_SCHEMES for each in components):
            own = [name for each in uri.components for name in each.options]
            own += [name.removeprefix("nested.") for name in uri.options]
            nested = {f"nested.{k}": v for k, v in _options(tls, table, own).items()}
        return replace(uri, components=components, options={**uri.options, **nested})
    if uri.scheme not in TLS_SCHEMES:
        return uri
    return replace(uri, options={**uri.options, **_options(tls, table, uri.options)})


def _options(tls: TlsOptions, table: Options, given: Iterable[str]) -> dict[str, str]:
    """Return what differs from the defaults as options, without those that are `given`."""
    attributes = {table[name][0] for name in given if name in table}
    default = TlsOptions()
    found: dict[str, str] = {}
    for each in fields(TlsOptions):
        value = getattr(tls, each.name)
        if value != getattr(default, each.name) and each.name not in attributes:
            found[_option_of(each.name, table)] = _text(value)
    return found


def _option_of(attribute: str, table: Options) -> str:
    for name, (described, _) in table.items():
        if described == attribute:
            return name
    raise ConfigurationException(f"{attribute} is not an option of this side of a TLS connection")


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
