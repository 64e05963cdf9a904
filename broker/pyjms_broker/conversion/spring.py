"""Resolve the Spring part of ActiveMQ's XML: imports, beans, references and properties.

The result is a tree of ActiveMQ's own elements and attributes, independent of the Spring syntax
used: `<kahaDB directory="x"/>`, `<bean class="...KahaDBPersistenceAdapter">` with
`<property name="directory" value="x"/>`, or `#kaha` with a bean of that id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms_broker.conversion.xml_reader import Element, Findings, read_xml
from pyjms_broker.security.properties_file import read_properties

_PLACEHOLDER: Final = re.compile(r"\$\{([^${}]+)\}")
_MAX_ROUNDS: Final = 20
_MAX_LENGTH: Final = 65_536
_DIRECTORIES: Final = ("home", "base", "conf", "data")


class Placeholders:
    """Values of placeholders.

    Order of lookup: values given by the caller, properties files, environment variables of the
    same name. For ActiveMQ's directories then the variables of its scripts (ACTIVEMQ_BASE) or the
    usual places: `activemq.conf` is the directory of the XML file, `activemq.base` is its parent if
    the directory is named `conf`, and `activemq.data` is `data` in `activemq.base`.
    """

    def __init__(self, given: Mapping[str, str], environ: Mapping[str, str], conf: Path) -> None:
        self._given = given
        self._environ = environ
        self._properties: dict[str, str] = {}
        base = conf.parent if conf.name == "conf" else conf
        self._directories = {
            f"activemq.{name}": value
            for name, value in zip(_DIRECTORIES, (str(base), str(base), str(conf), ""), strict=True)
        }
        self._directories["activemq.data"] = "${activemq.base}/data"

    def add_properties(self, properties: Mapping[str, str]) -> None:
        """Add the values of a properties file; they override earlier ones."""
        self._properties.update(properties)

    def resolve(self, text: str) -> str:
        """Return `text` with its placeholders replaced."""
        for _ in range(_MAX_ROUNDS):
            replaced = _PLACEHOLDER.sub(lambda match: self._value(match[1]), text)
            if replaced == text:
                return text
            text = replaced
            if len(text) > _MAX_LENGTH:
                break
        raise ConfigurationException("its placeholders refer to each other endlessly")

    def _value(self, inner: str) -> str:
        name, mark, default = inner.partition(":")
        name = name.strip()
        found = self._look_up(name)
        if found is None and mark:
            return default
        if found is None:
            raise ConfigurationException(
                f"${{{name}}} has no value", hint=f"give one: -D {name}=VALUE, or --properties FILE"
            )
        if found.startswith("ENC("):
            raise ConfigurationException(
                f"${{{name}}} has an encrypted value",
                hint=f"decrypt it with ActiveMQ's `activemq decrypt`, and give it: -D {name}=VALUE",
            )
        return found

    def _look_up(self, name: str) -> str | None:
        script_variable = name.upper().replace(".", "_")
        for values, key in (
            (self._given, name),
            (self._properties, name),
            (self._environ, name),
            (self._environ, script_variable if name in self._directories else name),
            (self._directories, name),
        ):
            if key in values:
                return values[key]
        return None


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


_BROKER: Final = "broker"
_MAX_IMPORTS: Final = 50
_ACTIVEMQ_CLASS: Final = re.compile(r"org\.apache\.(?:activemq|kahadb)\.(?:\w+\.)*(\w+)")
_BROKER_CLASS: Final = re.compile(r"org\.apache\.activemq\.(?!web\.|camel\.)")
_REFERENCES: Final = re.compile(r"\s*#[\w.-]+\s*(?:,\s*#[\w.-]+\s*)*")


def file_path(text: str, directory: Path) -> Path:
    """Return the path of a Spring resource: `file:conf/x`, `classpath:x` or `x`."""
    for prefix in ("file:", "classpath:", "url:"):
        text = text.removeprefix(prefix)
    if text.startswith("//"):
        text = "/" + text.lstrip("/")
    return directory / text


class SpringFiles:
    """A file and its imports: the `<broker>` and the beans that it refers to."""

    def __init__(self, findings: Findings, placeholders: Placeholders) -> None:
        self._findings = findings
        self._placeholders = placeholders
        self._beans: dict[str, Element] = {}
        self._top_level: list[Element] = []
        self._used: set[Element] = set()
        self._read: set[Path] = set()

    def load(self, path: Path) -> Element:
        """Read a file and its imports; return the resolved `<broker>` element."""
        self._read_file(path)
        for element in self._top_level:
            self._read_placeholder_files(element, path.absolute().parent)
        brokers = [each for each in self._top_level if self._name_of(each) == _BROKER]
        if len(brokers) != 1:
            where = ", ".join(str(each.origin) for each in brokers)
            raise ConfigurationException(
                f"{path} has {f'several brokers: {where}' if brokers else 'no <broker>'}",
                hint="convert a file with one <broker>, ActiveMQ's conf/activemq.xml",
            )
        self._used.add(brokers[0])
        broker = self._resolve(brokers[0], ())
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
        elements = [root] if self._name_of(root) == _BROKER else root.children
        if importing is not None and not any(map(self._is_of_broker, elements)):
            return False
        for element in elements:
            if element.name == "import":
                self._import(element, path)
                continue
            self._top_level.append(element)
            for name in (element.attributes.get("id"), element.attributes.get("name")):
                if name and element.name != _BROKER:
                    self._beans[name] = element
        return True

    def _is_of_broker(self, element: Element) -> bool:
        return (
            element.name == "import"
            or "activemq" in element.namespace
            or _BROKER_CLASS.match(_class(element)) is not None
            or _class(element) in PLACEHOLDER_CLASSES
            or "DataSource" in _class(element)
        )

    def _import(self, element: Element, path: Path) -> None:
        resource = element.attributes.get("resource", "")
        try:
            target = file_path(self._placeholders.resolve(resource), path.absolute().parent)
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

    def _read_placeholder_files(self, element: Element, directory: Path) -> None:
        if element.name == "property-placeholder":
            locations = element.attributes.get("location", "").split(",")
        elif _class(element) in PLACEHOLDER_CLASSES:
            locations = list(_locations(element))
        else:
            return
        self._used.add(element)
        for location in filter(None, map(str.strip, locations)):
            try:
                text = self._placeholders.resolve(location)
                self._placeholders.add_properties(read_properties(file_path(text, directory)))
            except ConfigurationException as error:
                self._findings.report(element, error.reason, error.hint)

    def _name_of(self, element: Element) -> str:
        """Return the name of ActiveMQ's element; for a bean, the one of its class."""
        if element.name != "bean":
            return element.name
        known = _ACTIVEMQ_CLASS.fullmatch(_class(element))
        if known is None:
            return "bean"
        return CLASS_ELEMENTS.get(known[1], known[1][:1].lower() + known[1][1:])

    def _resolve(self, element: Element, within: tuple[Element, ...]) -> Element:
        """Return a copy without Spring syntax; `within` has the elements that contain it."""
        if element in within or len(within) > 64:
            raise ConfigurationException(f"{element.origin}: <{element.name}> contains itself")
        inside = (*within, element)
        made = Element(
            self._name_of(element), element.namespace, {}, element.origin, text=element.text
        )
        for name, text in element.attributes.items():
            if element.name == "bean" and name == "class" and made.name != "bean":
                continue  # already used as the element's name
            if name != "id":
                self._add_attribute(made, name, text, inside)
        for child in element.children:
            self._add_child(made, child, inside)
        if made.text:
            made.text = self._placeholder_text(made, "", made.text) or ""
        return made

    def _add_attribute(
        self, made: Element, name: str, text: str, inside: tuple[Element, ...]
    ) -> None:
        if _REFERENCES.fullmatch(text):
            names = [each.strip().removeprefix("#") for each in text.split(",")]
            made.children.append(self._property(made, name, names, inside))
            return
        value = self._placeholder_text(made, name, text)
        if value is not None:
            made.attributes[name] = value

    def _add_child(self, made: Element, child: Element, inside: tuple[Element, ...]) -> None:
        if child.name == "property" and "name" in child.attributes:
            name = child.attributes["name"]
            if "value" in child.attributes:
                self._add_attribute(made, name, child.attributes["value"], inside)
            elif "ref" in child.attributes:
                names = [child.attributes["ref"]]
                made.children.append(self._property(child, name, names, inside))
            else:
                renamed = Element(name, child.namespace, {}, child.origin, child.children)
                self._add_child(made, renamed, inside)
        elif child.name == "ref":
            name = child.attributes.get("bean") or child.attributes.get("local", "")
            made.children.extend(self._resolve_references(child, [name], inside))
        elif child.name in ("list", "set", "array"):
            for item in child.children:
                self._add_child(made, item, inside)
        elif child.is_plain_text and child.name != "value":
            self._add_attribute(made, child.name, child.text, inside)
        else:
            made.children.append(self._resolve(child, inside))

    def _property(
        self, owner: Element, name: str, references: list[str], inside: tuple[Element, ...]
    ) -> Element:
        found = list(self._resolve_references(owner, references, inside))
        return Element(name, "", {}, owner.origin, found)

    def _resolve_references(
        self, owner: Element, names: list[str], inside: tuple[Element, ...]
    ) -> Iterator[Element]:
        for name in names:
            bean = self._beans.get(name)
            if bean is None:
                self._findings.report(owner, f"there is no bean {name!r}", "define it")
                continue
            self._used.add(bean)
            yield self._resolve(bean, inside)

    def _placeholder_text(self, element: Element, name: str, text: str) -> str | None:
        if "${" not in text:
            return text
        try:
            return self._placeholders.resolve(text)
        except ConfigurationException as error:
            self._findings.report(element, error.reason, error.hint, attribute=name)
            return None

    def _name_unused(self) -> None:
        for element in self._top_level:
            if element in self._used:
                continue
            described = _class(element) or element.name
            for mark, reason, hint in TOP_LEVEL:
                if mark in described:
                    self._findings.report(element, reason, hint)
                    break
            else:
                self._findings.report(
                    element, f"{described} is a Java object that this broker cannot create"
                )


def _class(element: Element) -> str:
    return element.attributes.get("class", "")


def _locations(element: Element) -> Iterator[str]:
    for child in element.children:
        if child.attributes.get("name") in ("location", "locations"):
            yield child.attributes.get("value", "")
            yield from (each.text for each in _descendants(child) if each.name == "value")


def _descendants(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _descendants(child)
