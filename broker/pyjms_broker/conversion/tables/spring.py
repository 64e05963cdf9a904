"""Spring's own beans next to the `<broker>`."""

from __future__ import annotations

from typing import Final

__all__ = ["CLASS_ELEMENTS", "PLACEHOLDER_CLASSES", "TOP_LEVEL"]

PLACEHOLDER_CLASSES: Final = frozenset(
    {
        "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer",
        "org.springframework.context.support.PropertySourcesPlaceholderConfigurer",
        "org.jasypt.spring.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring31.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring4.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring6.properties.EncryptablePropertyPlaceholderConfigurer",
    }
)
"""Classes whose `location` and `locations` name properties files."""

CLASS_ELEMENTS: Final = {
    "BrokerService": "broker",
    "XBeanBrokerService": "broker",
    "KahaDBPersistenceAdapter": "kahaDB",
    "KahaDBStore": "kahaDB",
    "MultiKahaDBPersistenceAdapter": "mKahaDB",
    "FilteredKahaDBPersistenceAdapter": "filteredKahaDB",
    "JDBCPersistenceAdapter": "jdbcPersistenceAdapter",
    "SpringSslContext": "sslContext",
    "SharedFileLocker": "shared-file-locker",
    "DefaultDatabaseLocker": "database-locker",
    "LeaseDatabaseLocker": "lease-database-locker",
    "ActiveMQQueue": "queue",
    "ActiveMQTopic": "topic",
}
"""ActiveMQ's classes whose element name is not the class name with a lower-case initial."""

_CONSOLE: Final = (
    "it configures ActiveMQ's web console, whose server is a part of Java",
    "add the section `web: {}` to broker.yaml, for this broker's own web server",
)
_CAMEL: Final = (
    "routes of Apache Camel run in Java",
    "run them in a separate program that connects to the broker, or write a listener",
)
_JASYPT: Final = (
    "encrypted properties are not decrypted",
    "decrypt them with ActiveMQ's `activemq decrypt`, and give them: -D NAME=VALUE",
)
TOP_LEVEL: Final[tuple[tuple[str, str, str], ...]] = (
    ("jetty", *_CONSOLE),
    ("org.apache.activemq.web", *_CONSOLE),
    ("camel", *_CAMEL),
    ("jasypt", *_JASYPT),
    (
        "LogQuery",
        "it makes log lines available by JMX",
        "the log is written to the standard error stream",
    ),
    ("commandAgent", "the broker takes no commands in messages", "use `pyjms broker`"),
)
"""Part of a class, element or file name; the reason why it is not converted; the remedy."""
