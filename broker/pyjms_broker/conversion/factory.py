"""The broker of an `xbean:` URI, which names a configuration of ActiveMQ in Spring's XML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms_broker.conversion.broker import convert_activemq_xml
from pyjms_broker.conversion.values import file_path
from pyjms_broker.service import BrokerService

logger = get_logger(__name__)


def from_xml(
    uri: str, given: Mapping[str, str], *, ignore_unsupported: bool = False
) -> BrokerService:
    """Create a broker from `xbean:FILE`; `given` are values of placeholders in it; blocking.

    Raises:
        ConfigurationException: the file cannot be read, or has elements without a counterpart that
            are not ignored.
    """
    resource = uri.partition(":")[2].partition("?")[0]
    path = file_path(resource, Path())
    conversion = convert_activemq_xml(path, given)
    unsupported = conversion.unsupported
    if unsupported and not ignore_unsupported:
        raise ConfigurationException(
            "\n".join((f"xbean:{resource}: not everything is supported:", *map(str, unsupported))),
            hint="change the file, or ignore these elements with `pyjms broker start "
            "--ignore-unsupported`",
        )
    for finding in unsupported:
        logger.warning("%s", finding)
    settings = conversion.settings()
    settings.read_from(path, lambda: convert_activemq_xml(path, given).settings())
    return BrokerService.from_settings(settings)
