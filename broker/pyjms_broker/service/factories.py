"""Brokers from URIs, by scheme: `broker:`, `properties:`, `xbean:`, and those of other packages.

The entry-point group `broker.factories` maps a scheme to a function `factory(uri, given)` that
returns a broker that is not started. `given` are values that a program was started with, ActiveMQ's
system properties. (ActiveMQ BrokerFactory; activemq-broker B12, B13, B16)
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyjms.configuration.properties_file import read_properties
from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms_broker import entry_points
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.uri import WITHOUT_EFFECT, keywords_from, known_options, read_broker_uri

logger = get_logger(__name__)

BrokerFactory = Callable[[str, Mapping[str, str]], BrokerService]
_HERE: Final = "pyjms_broker.service.factories"
_BUILT_IN: Final = {
    "broker": f"{_HERE}:from_broker_uri",
    "properties": f"{_HERE}:from_properties",
    "xbean": "pyjms_broker.conversion.broker:from_xml",
}
"""Scheme to factory, written as in an entry point: only some brokers need the conversion."""
_CONNECTORS: Final = "transportConnectorURIs"


def create_broker(uri: str, given: Mapping[str, str] | None = None) -> BrokerService:
    """Create the broker that a URI describes; blocking, because it may name a file.

    Raises:
        ConfigurationException: there is no factory for its scheme, or the factory refuses it.
    """
    scheme, mark, _ = uri.strip().partition(":")
    if not mark:
        read_broker_uri(uri)  # raises the error of a URI without a scheme
    built_in = _BUILT_IN.get(scheme)
    if built_in is not None:
        factory: BrokerFactory = pkgutil.resolve_name(built_in)
        return factory(uri, given or {})
    group = entry_points.FACTORIES
    known = entry_points.installed_names(group)
    if scheme not in known:
        raise ConfigurationException(
            f"Could not load {scheme} factory: broker URIs start with "
            f"{', '.join(f'{each}:' for each in sorted({*_BUILT_IN, *known}))}",
            hint="write broker:(tcp://localhost:61616)/name?persistent=false",
        )
    installed = entry_points.load(group, scheme)
    entry_points.check_loaded(group, scheme, callable(installed), "a function")
    assert callable(installed)
    service = installed(uri, given or {})
    ok = isinstance(service, BrokerService)
    entry_points.check_loaded(group, scheme, ok, "a factory of a BrokerService")
    assert isinstance(service, BrokerService)
    return service


def from_broker_uri(uri: str, _given: Mapping[str, str]) -> BrokerService:
    """Create a broker from `broker:(tcp://host:port,...)/name?persistent=false`."""
    return BrokerService.from_description(read_broker_uri(uri))


def from_properties(uri: str, given: Mapping[str, str]) -> BrokerService:
    """Create a broker from `properties:FILE`, a file of attributes; `given` overrides them."""
    path = Path(uri.partition(":")[2].removeprefix("file:").partition("?")[0])
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
