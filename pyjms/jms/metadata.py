"""Names of properties, and what a connection reports of its provider. (jms-api 1; JMS 1.1, 4.3)"""

from __future__ import annotations

from typing import Final, NamedTuple

JMSX_PROPERTY_NAMES = (
    "JMSXUserID",
    "JMSXGroupID",
    "JMSXGroupSeq",
    "JMSXDeliveryCount",
    "JMSXProducerTXID",
)

DUPLICATE_ID_PROPERTY: Final = "_AMQ_DUPL_ID"
"""Artemis' property by which a sender identifies repetitions of one message."""


class ConnectionMetaData(NamedTuple):
    """Names and versions of the JMS provider. JMS: javax.jms.ConnectionMetaData."""

    jms_version: str = "1.1"
    jms_major_version: int = 1
    jms_minor_version: int = 1
    jms_provider_name: str = "ActiveMQ"
    provider_version: str = "5.17.2"
    provider_major_version: int = 5
    provider_minor_version: int = 17
    jmsx_property_names: tuple[str, ...] = JMSX_PROPERTY_NAMES
