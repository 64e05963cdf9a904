"""Create a broker from an ActiveMQ broker URI: `broker:`, `properties:` or `xbean:`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms_broker.service import BrokerService

logger = get_logger(__name__)

_CONNECTORS: Final = "transportConnectorURIs"


def service_from_uri(
    uri: str, given: Mapping[str, str], *, ignore_unsupported: bool = False
) -> BrokerService:
    """Create the broker that a URI describes; blocking. (activemq-broker B12, B13, B16)

    Args:
        uri: `broker:(tcp://host:port)/name?persistent=false`, `properties:FILE` or `xbean:FILE`.
        given: values for placeholders in the XML, and attributes that override those of a
            properties file, like ActiveMQ's system properties.
        ignore_unsupported: start the broker even if the XML has unsupported elements.

    Raises:
        ConfigurationException: the URI or the file is invalid, or has unsupported elements.
    """
    scheme, mark, rest = uri.partition(":")
    if mark and scheme == "properties":
        return _from_properties(Path(rest.removeprefix("file:").partition("?")[0]), given)
    if mark and scheme == "xbean":
        return _from_xml(rest.partition("?")[0], given, ignore_unsupported)
    return BrokerService.from_uri(uri)


def store_directory_of(config: str) -> Path:
    """Return the message store's directory in a configuration; blocking.

    Args:
        config: `broker.yaml`, or an ActiveMQ configuration: `activemq.xml`, `xbean:FILE`,
            `properties:FILE` or `broker:(...)?...`.

    Raises:
        ConfigurationException: the file is invalid, or its broker's store has no directory.
    """
    scheme = config.partition(":")[0]
    if scheme in {"xbean", "properties", "broker"}:
        service = service_from_uri(config, {}, ignore_unsupported=True)
    elif config.lower().endswith(".xml"):
        service = service_from_uri(f"xbean:{config}", {}, ignore_unsupported=True)
    else:
        from pyjms_broker.settings import load_broker_settings

        service = BrokerService.from_settings(load_broker_settings(Path(config)))
    directory = service.stores.directory
    if directory is None:
        raise ConfigurationException(
            f"The broker of {config} has no message store in a directory",
            hint="export from a running broker with --url",
        )
    return directory


def _from_properties(path: Path, given: Mapping[str, str]) -> BrokerService:
    from pyjms_broker.security.properties_file import read_properties
    from pyjms_broker.service.uri import WITHOUT_EFFECT, keywords_from, known_options

    properties = {**read_properties(path), **given}
    connectors = properties.pop(_CONNECTORS, "").replace(",", " ").split()
    known = {**known_options(), **dict.fromkeys(WITHOUT_EFFECT)}
    for name in sorted(properties.keys() - known.keys()):
        logger.warning("%s: the broker has no attribute %s; it is ignored", path, name)
    keywords = keywords_from({k: v for k, v in properties.items() if k in known})
    make: Callable[..., BrokerService] = BrokerService
    service = make(**keywords)
    for connector in connectors:
        service.add_connector(connector)
    return service


def _from_xml(resource: str, given: Mapping[str, str], ignore_unsupported: bool) -> BrokerService:
    from pyjms_broker.conversion import convert_activemq_xml, file_path

    path = file_path(resource, Path())
    conversion = convert_activemq_xml(path, given)
    unsupported = conversion.unsupported
    if unsupported and not ignore_unsupported:
        raise ConfigurationException(
            "\n".join((f"xbean:{resource}: not everything is supported:", *map(str, unsupported))),
            hint="change the file, or ignore these elements with --ignore-unsupported",
        )
    for finding in unsupported:
        print(finding, file=sys.stderr)
    settings = conversion.settings()
    settings.read_from(path, lambda: convert_activemq_xml(path, given).settings())
    return BrokerService.from_settings(settings)
