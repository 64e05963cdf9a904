"""Read the files of a Spring configuration: imports, profiles, and files of properties."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyjms.configuration.properties_file import parse_properties, read_properties
from pyjms.errors import ConfigurationException
from pyjms_broker.conversion.beans import Beans, class_of, element_name
from pyjms_broker.conversion.values import Placeholders, exists, find_file
from pyjms_broker.conversion.xml_reader import Element, Findings, read_xml

PLACEHOLDER_CLASSES: Final = frozenset(
    {
        "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer",
        "org.springframework.context.support.PropertySourcesPlaceholderConfigurer",
        "org.jasypt.spring.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring31.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring4.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.jasypt.spring6.properties.EncryptablePropertyPlaceholderConfigurer",
        "org.springframework.beans.factory.config.PropertiesFactoryBean",
    }
)
"""Classes whose `location`, `locations` and `properties` give values to placeholders."""
_PLACEHOLDER_ELEMENTS: Final = frozenset({"property-placeholder", "properties"})

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


_BROKER: Final = "broker"
_MAX_IMPORTS: Final = 50
_BROKER_CLASS: Final = re.compile(r"org\.apache\.activemq\.(?!web\.|camel\.)")
_NAMED: Final = frozenset({"alias", "description"})
"""Elements that need no finding if nothing refers to them."""


class SpringFiles:
    """A file and its imports: the `<broker>` and the beans that it refers to."""

    def __init__(self, findings: Findings, placeholders: Placeholders) -> None:
        self._findings = findings
        self._placeholders = placeholders
        self._beans = Beans(findings, placeholders)
        self._top_level: list[Element] = []
        self._read: set[Path] = set()

    def load(self, path: Path) -> Element:
        """Read a file and its imports; return the resolved `<broker>` element."""
        self._read_file(path)
        for element in self._top_level:
            self._read_values(element, path.absolute().parent)
        brokers = [each for each in self._top_level if element_name(each) == _BROKER]
        if len(brokers) != 1:
            where = ", ".join(str(each.origin) for each in brokers)
            raise ConfigurationException(
                f"{path} has {f'several brokers: {where}' if brokers else 'no <broker>'}",
                hint="convert a file with one <broker>, ActiveMQ's conf/activemq.xml",
            )
        self._beans.used.add(brokers[0])
        broker = self._beans.resolve(brokers[0])
        self._name_unused()
        return broker

    def _read_file(self, path: Path, importing: Element | None = None) -> bool:
        """Read one file; return whether it contributes to the broker."""
        resolved = path.absolute()
        if resolved in self._read:
            return True
        self._read.add(resolved)
        if len(self._read) > _MAX_IMPORTS:
            raise ConfigurationException(f"more than {_MAX_IMPORTS} files are imported")
        root = read_xml(path)
        elements = [root] if element_name(root) == _BROKER else list(self._active(root))
        if importing is not None and not any(map(_is_of_broker, elements)):
            return False
        for element in elements:
            if element.name == "import":
                self._import(element, path)
                continue
            self._top_level.append(element)
            if element.name != _BROKER:
                self._beans.add(element)
        return True

    def _active(self, beans: Element) -> Iterator[Element]:
        """Yield the elements in `<beans>` and in those in it whose profile is active."""
        profiles = beans.attributes.get("profile")
        if profiles is not None and not self._placeholders.is_active(profiles):
            self._findings.note(
                beans,
                f"the profile {profiles} is not active",
                "-D spring.profiles.active=NAME makes it so",
                attribute="profile",
            )
            return
        for child in beans.children:
            if child.name == "beans":
                yield from self._active(child)
            else:
                yield child

    def _import(self, element: Element, path: Path) -> None:
        resource = element.attributes.get("resource", "")
        try:
            target = find_file(self._placeholders.resolve(resource), path.absolute().parent)
            if self._read_file(target, element):
                return
        except ConfigurationException as error:
            self._findings.report(element, error.reason, error.hint, attribute="resource")
            return
        for mark, reason, hint in TOP_LEVEL:
            if mark in target.name:
                self._findings.report(element, f"{resource}: {reason}", hint, attribute="resource")
                return
        self._findings.report(
            element,
            f"{resource} configures Java objects, nothing of a broker",
            attribute="resource",
        )

    def _read_values(self, element: Element, directory: Path) -> None:
        """Read the values of placeholders that an element has, or whose files it names."""
        if (
            element.name not in _PLACEHOLDER_ELEMENTS
            and class_of(element) not in PLACEHOLDER_CLASSES
        ):
            return
        self._beans.used.add(element)
        self._placeholders.add_properties(_values_in(element))
        for location in _locations(element):
            try:
                file = find_file(self._placeholders.resolve(location), directory)
                if exists(file) or not _may_be_missing(element):
                    self._placeholders.add_properties(read_properties(file))
            except ConfigurationException as error:
                self._findings.report(element, error.reason, error.hint)

    def _name_unused(self) -> None:
        for element in self._top_level:
            if element in self._beans.used or element.name in _NAMED:
                continue
            described = class_of(element) or element.name
            for mark, reason, hint in TOP_LEVEL:
                if mark in described:
                    self._findings.report(element, reason, hint)
                    break
            else:
                self._findings.report(
                    element, f"{described} is a Java object that this broker cannot create"
                )


def _is_of_broker(element: Element) -> bool:
    return (
        element.name == "import"
        or "activemq" in element.namespace
        or _BROKER_CLASS.match(class_of(element)) is not None
        or class_of(element) in PLACEHOLDER_CLASSES
        or element.name in _PLACEHOLDER_ELEMENTS
        or "DataSource" in class_of(element)
    )


def _values_in(element: Element) -> dict[str, str]:
    """Return the values in the element itself: `<prop key="a">b</prop>`, `<value>a=b</value>`."""
    found: dict[str, str] = {}
    for child in element.children:
        if child.attributes.get("name") == "properties":
            for each in _descendants(child):
                if each.name == "value":
                    found.update(parse_properties(each.text))
    for each in _descendants(element):
        if each.name == "prop":
            found[each.attributes.get("key", "")] = each.text
    return found


def _locations(element: Element) -> Iterator[str]:
    """Yield the names of properties files."""
    texts = [element.attributes.get("location", "")]
    for child in element.children:
        if child.attributes.get("name") in ("location", "locations"):
            for each in (child, *_descendants(child)):
                texts.append(each.attributes.get("value", ""))
                texts.append(each.text)
    texts += (text for name, text in element.attributes.items() if name.endswith("|location"))
    for text in texts:
        yield from filter(None, map(str.strip, text.split(",")))


def _may_be_missing(element: Element) -> bool:
    """Return whether Spring does without a file that does not exist."""
    named = element.attributes.get("ignore-resource-not-found", "")
    for child in element.children:
        if child.attributes.get("name") == "ignoreResourceNotFound":
            named = child.attributes.get("value", child.children[0].text if child.children else "")
    return named == "true"


def _descendants(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _descendants(child)
