"""Convert `<transportConnectors>` and `<sslContext>`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.transport.tls import TLS_SCHEMES
from pyjms.transport.uri import TransportURI
from pyjms_broker.conversion.draft import Draft, Path
from pyjms_broker.conversion.sections import Lost
from pyjms_broker.conversion.spring import file_path
from pyjms_broker.conversion.tables.broker import CONNECTOR, SSL
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.service import BrokerService

__all__ = ["convert_connectors", "convert_ssl"]

_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of Java's own key-store formats, JKS and JCEKS."""
_KEYTOOL: Final = (
    "keytool -importkeystore -srckeystore {0} -destkeystore {0}.p12 -deststoretype PKCS12"
)
_EXPOSED: Final = (
    "other machines could connect without users, and this broker refuses to start like that"
)
_WAYS_OUT: Final = (
    "bind it to 127.0.0.1, configure users (docs/security.md), or set allow_anonymous_remote: true"
)
_BY_HAND: Final = "add it to broker.yaml with a key store in PEM or PKCS12 (docs/tls.md)"
_CHILDREN_LOST: Final = {
    "publishedAddressPolicy": Lost(
        "clients and other brokers learn the connector's own address",
        "name the host in its uri: tcp://broker.example.com:61616",
    ),
    "discoveryAgent": Lost("it is a Java object", "write discoveryUri=multicast://default"),
    "messageAuthorizationPolicy": Lost("it is a Java object"),
    "brokerInfo": Lost("it is a Java object"),
    "server": Lost("it is a Java object"),
    "taskRunnerFactory": Lost("it concerns Java's threads"),
}


def convert_connectors(has_ssl: bool, draft: Draft, element: Element, path: Path) -> None:
    """Convert `<transportConnectors>`; omit and report connectors that cannot be converted.

    `has_ssl` says whether the broker has an `<sslContext>`.
    """
    is_open = not _has_users(draft, path)
    for each in element.read_children():
        if each.name != "transportConnector":
            draft.findings.unsupported(each, "only <transportConnector> is allowed here")
            continue
        uri = _supported_uri(draft, each, has_ssl)
        if uri is None:
            continue
        here = draft.append((*path, "connectors"), {"uri": uri}, each)
        draft.convert_attributes(each, CONNECTOR, here)
        draft.convert_children(each, _CHILDREN_LOST, here)
        if is_open and not _is_local(uri):
            draft.findings.unsupported(each, _EXPOSED, _WAYS_OUT, attribute="uri")


def _has_users(draft: Draft, path: Path) -> bool:
    plugins = draft.get((*path, "plugins")) or ()
    return any(each["type"].endswith("_authentication") for each in plugins)


def _is_local(uri: str) -> bool:
    host = TransportURI.parse(uri).host
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _supported_uri(draft: Draft, element: Element, has_ssl: bool) -> str | None:
    """Return the URI without unsupported options; None if the connector itself is unsupported."""
    text = element.attributes.get("uri", "")
    element.read_attributes.add("uri")
    try:
        uri = TransportURI.parse(text)
        bare = replace(uri, options={})
        _check(bare, has_ssl or "ssl.keyStore" in uri.options)
    except ConfigurationException as error:
        draft.findings.unsupported(element, error.reason, error.hint, attribute="uri")
        element.is_named = True  # its attributes and children need no findings
        return None
    kept = {}
    for name, value in uri.options.items():
        try:
            _check(replace(bare, options={name: value}), True)
        except ConfigurationException as error:
            draft.findings.unsupported(
                element, f"option {name}: {error.reason}", error.hint, attribute="uri"
            )
        else:
            kept[name] = value
    if kept == dict(uri.options):
        return text
    return replace(uri, options=kept).with_secrets()


def _check(uri: TransportURI, has_certificate: bool) -> None:
    """Check the options by creating the connector; the certificate may be configured elsewhere.

    Raises:
        ConfigurationException: the connector is unknown, or refuses an option.
    """
    try:
        BrokerService(persistent=False).add_connector(uri)
    except ConfigurationException as error:
        if not has_certificate or "needs a certificate" not in error.reason:
            raise


def convert_ssl(conf: FilePath, draft: Draft, element: Element, path: Path) -> None:
    """Convert `<sslContext>` into `tls` of each encrypted connector."""
    context = draft.only_child(element)
    if context is None:
        return
    encrypted = list(_encrypted(draft, path))
    if not encrypted:
        draft.findings.note(context, "no connector is encrypted")
        return
    files = {}
    is_usable = "keyStore" in context.attributes
    for attribute, key in (("keyStore", "key_store"), ("trustStore", "trust_store")):
        if attribute in context.attributes:
            context.read_attributes.add(attribute)
            files[key] = file_path(context.attributes[attribute], conf)
            is_usable &= _check_store(draft, context, attribute, files[key])
    if not is_usable:
        for connector in reversed(encrypted):
            uri = draft.get((*connector, "uri"))
            draft.findings.unsupported(context, f"so the connector {uri} is left out", _BY_HAND)
            draft.drop(connector)
        return
    for connector in encrypted:
        here = (*connector, "tls")
        draft.put(here, {}, context)
        for key, file in files.items():
            draft.put((*here, key), str(file), context)
        draft.convert_attributes(context, SSL, here)
    java_objects = {name: Lost("it is a Java object") for name in ("keyManagers", "trustManagers")}
    draft.convert_children(context, java_objects, path)


def _encrypted(draft: Draft, path: Path) -> Iterator[Path]:
    for index, connector in enumerate(draft.get((*path, "connectors")) or ()):
        if connector["uri"].partition(":")[0].lower() in TLS_SCHEMES:
            yield (*path, "connectors", index)


def _check_store(draft: Draft, element: Element, attribute: str, file: FilePath) -> bool:
    """Return whether the broker can read a key store; report it if not."""
    try:
        with file.open("rb") as opened:
            start = opened.read(4)
    except OSError as error:
        draft.findings.unsupported(
            element,
            f"{file} cannot be read: {error.strerror or error}",
            "it must be PEM or PKCS12",
            attribute=attribute,
        )
        return False
    if start in _JKS:
        draft.findings.unsupported(
            element,
            f"{file} has Java's own format, which only Java reads",
            f"convert it, and change the name in broker.yaml: {_KEYTOOL.format(file)}",
            attribute=attribute,
        )
        return False
    return True
