"""Read a Spring configuration: beans, imports, profiles, and files of properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyjms.configuration.properties_file import parse_properties, read_properties
from pyjms.errors import ConfigurationException
from pyjms_broker.conversion.values import Placeholders, exists, find_file
from pyjms_broker.conversion.xml_reader import Element, Findings, read_xml

# --- Spring's beans, references and properties, resolved.
#
# The result is a tree of ActiveMQ's own elements and attributes, independent of the Spring syntax:
# `<kahaDB directory="x"/>`, `<bean class="...KahaDBPersistenceAdapter">` with
# `<property name="directory" value="x"/>`, `<property name="directory"><value>x</value></property>`
# or `p:directory="x"`, or `#kaha` with a bean of that id.

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

_CONSTRUCTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "ActiveMQQueue": ("physicalName",),
    "ActiveMQTopic": ("physicalName",),
    "AuthenticationUser": ("username", "password", "groups"),
    "GroupPrincipal": ("name",),
    "SimpleAuthenticationPlugin": ("users",),
    "AuthorizationPlugin": ("map",),
    "DefaultAuthorizationMap": ("authorizationEntries",),
    "JDBCPersistenceAdapter": ("dataSource",),
    "DriverManagerDataSource": ("url", "username", "password"),
    "SingleConnectionDataSource": ("url", "username", "password"),
    "SimpleDriverDataSource": ("driver", "url", "username", "password"),
    "HikariDataSource": ("configuration",),
    "TransactionAwareDataSourceProxy": ("targetDataSource",),
    "LazyConnectionDataSourceProxy": ("targetDataSource",),
}
"""The properties that the arguments of a class's constructor set, in their order."""

_PLAIN_CLASSES: Final = re.compile(
    r"java\.(?:net\.URI|io\.File|lang\.\w+)|org\.springframework\.core\.io\.\w+Resource"
)
"""Classes whose objects are texts, the argument of their constructor."""

_BEAN_ATTRIBUTES: Final = frozenset(
    {
        *("id", "name", "abstract", "parent", "scope", "singleton", "primary", "depends-on"),
        *("init-method", "destroy-method", "lazy-init", "lazy", "autowire", "autowire-candidate"),
        *("dependency-check",),
    }
)
"""Attributes of `<bean>` that say how Spring creates an object, not what it is."""

_P: Final = "http://www.springframework.org/schema/p|"
_C: Final = "http://www.springframework.org/schema/c|"
_COLLECTIONS: Final = frozenset({"list", "set", "array"})
_WITHOUT_MEANING: Final = frozenset({"description", "meta", "null"})
_ACTIVEMQ_CLASS: Final = re.compile(r"org\.apache\.(?:activemq|kahadb)\.(?:\w+\.)*(\w+)")
_REFERENCES: Final = re.compile(r"\s*#[\w.-]+\s*(?:,\s*#[\w.-]+\s*)*")
_NAME_SEPARATOR: Final = re.compile(r"[,;\s]+")
_MAX_DEPTH: Final = 64


def class_of(element: Element) -> str:
    """Return the class of a bean."""
    return element.attributes.get("class", "")


def element_name(element: Element) -> str:
    """Return the name of ActiveMQ's element; for a bean, the one of its class."""
    if element.name != "bean":
        return element.name
    known = _ACTIVEMQ_CLASS.fullmatch(class_of(element))
    if known is None:
        return "bean"
    return CLASS_ELEMENTS.get(known[1], known[1][:1].lower() + known[1][1:])


class Beans:
    """The beans of all files, by their names."""

    def __init__(self, findings: Findings, placeholders: Placeholders) -> None:
        self._findings = findings
        self._placeholders = placeholders
        self._beans: dict[str, Element] = {}
        self._aliases: dict[str, str] = {}
        self.used: set[Element] = set()
        """Elements that a resolved one refers to."""

    def add(self, element: Element) -> None:
        """Add an element at the top of a file, which others can refer to."""
        if element.name == "alias":
            self._aliases[element.attributes.get("alias", "")] = element.attributes.get("name", "")
            return
        for attribute in ("id", "name"):
            for name in _NAME_SEPARATOR.split(element.attributes.get(attribute, "")):
                self._beans[name] = element

    def find(self, name: str) -> Element | None:
        """Return the bean of a name or alias, and count it as used."""
        for _ in range(_MAX_DEPTH):
            found = self._beans.get(name)
            if found is not None:
                self.used.add(found)
                return found
            name = self._aliases.get(name, "")
        return None

    def resolve(self, element: Element, within: tuple[Element, ...] = ()) -> Element:
        """Return a copy without Spring syntax; `within` has the elements that contain it."""
        if element in within or len(within) > _MAX_DEPTH:
            raise ConfigurationException(f"{element.origin}: <{element.name}> contains itself")
        inside = (*within, element)
        if element.name == "bean":
            element = _with_own_elements(self._with_parent(element, 0))
        made = Element(
            element_name(element), element.namespace, {}, element.origin, text=element.text
        )
        for name, text in element.attributes.items():
            if element.name != "bean":
                if name != "id":
                    self._add_attribute(made, name, text, inside)
            elif name not in _BEAN_ATTRIBUTES and not (name == "class" and made.name != "bean"):
                self._set(made, name, text)
        arguments = [each for each in element.children if each.name == "constructor-arg"]
        for child in element.children:
            if child.name == "constructor-arg":
                name = _argument_name(child, arguments.index(child), class_of(element))
                self._add_property(made, name, child, inside)
            else:
                self._add_child(made, child, inside)
        if made.text:
            made.text = self._value(made, "", made.text) or ""
        return made

    def _with_parent(self, bean: Element, depth: int) -> Element:
        """Return a bean with what it inherits from the bean that its `parent` names."""
        name = bean.attributes.get("parent")
        found = None if name is None or depth > _MAX_DEPTH else self.find(name)
        if found is None:
            if name is not None:
                self._findings.report(bean, f"there is no bean {name!r}", attribute="parent")
            return bean
        parent = self._with_parent(found, depth + 1)
        own = {each.attributes.get("name") for each in bean.children if each.name == "property"}
        inherited = [
            each
            for each in parent.children
            if each.name != "property" or each.attributes.get("name") not in own
        ]
        attributes = {**parent.attributes, **bean.attributes}
        return replace(bean, attributes=attributes, children=[*inherited, *bean.children])

    def _add_attribute(
        self, made: Element, name: str, text: str, inside: tuple[Element, ...]
    ) -> None:
        """Add an attribute of an element of ActiveMQ, where `#x` refers to a bean."""
        if text == "#null":
            return
        if _REFERENCES.fullmatch(text):
            names = [each.strip().removeprefix("#") for each in text.split(",")]
            found = list(self._references(made, names, inside))
            made.children.append(Element(name, "", {}, made.origin, found))
        else:
            self._set(made, name, text[1:] if text.startswith("##") else text)

    def _add_child(self, made: Element, child: Element, inside: tuple[Element, ...]) -> None:
        if child.name in _WITHOUT_MEANING:
            return
        if child.name == "property" and "name" in child.attributes:
            self._add_property(made, child.attributes["name"], child, inside)
        elif child.name == "ref":
            name = next(iter(child.attributes.values()), "")
            made.children.extend(self._references(child, [name], inside))
        elif child.name in _COLLECTIONS:
            for item in child.children:
                self._add_child(made, item, inside)
        elif _is_map(child):
            for entry in child.children:
                self._add_entry(made, entry, inside)
        elif child.is_plain_text and child.name != "value":
            self._add_attribute(made, child.name, child.text, inside)
        else:
            made.children.append(self.resolve(child, inside))

    def _add_property(
        self, made: Element, name: str, holder: Element, inside: tuple[Element, ...]
    ) -> None:
        """Add what Spring sets a property to: a text as an attribute, everything else as a child.

        `systemUsage.memoryUsage.limit` is a property of a property, which ActiveMQ's elements
        write as `<systemUsage><systemUsage><memoryUsage>...`.
        """
        first, _, rest = name.partition(".")
        if rest:
            self._add_property(_nested_element(made, first), rest, holder, inside)
            return
        text = self._plain_value(holder)
        if text is not None:
            self._set(made, name, text)
            return
        inner = Element(name, holder.namespace, {}, holder.origin)
        if "ref" in holder.attributes:
            names = [holder.attributes["ref"]]
            inner.children.extend(self._references(holder, names, inside))
        elif holder.child("null") is not None:
            return
        else:
            for child in holder.children:
                self._add_child(inner, child, inside)
            inner.text = holder.text
        made.children.append(inner)

    def _add_entry(self, made: Element, entry: Element, inside: tuple[Element, ...]) -> None:
        """Add `<entry key="k" value="v"/>`, in any of Spring's forms, as in this one."""
        key = entry.child("key")
        name = entry.attributes.get("key") or ("" if key is None else self._plain_value(key)) or ""
        others = [each for each in entry.children if each is not key]
        attributes = {
            attribute.removeprefix("value-"): text
            for attribute, text in entry.attributes.items()
            if attribute in ("value", "value-ref")
        }
        if entry.name == "prop":
            attributes["value"] = entry.text
        inner = Element("entry", "", {}, entry.origin)
        self._set(inner, "key", name)
        holder = Element("entry", entry.namespace, attributes, entry.origin, others)
        self._add_property(inner, "value", holder, inside)
        made.children.append(inner)

    def _plain_value(self, holder: Element) -> str | None:
        """Return the text that a property is set to; None if it is set to something else."""
        if "value" in holder.attributes:
            return holder.attributes["value"]
        if "ref" in holder.attributes:
            only = self.find(holder.attributes["ref"])
        else:
            children = [each for each in holder.children if each.name not in _WITHOUT_MEANING]
            only = children[0] if len(children) == 1 else None
        if only is None:
            return None
        if only.name in ("value", "idref"):
            return only.text or next(iter(only.attributes.values()), "")
        if _PLAIN_CLASSES.fullmatch(class_of(only)):
            arguments = _with_own_elements(only).children
            return self._plain_value(arguments[0]) if len(arguments) == 1 else None
        return None

    def _references(
        self, owner: Element, names: list[str], inside: tuple[Element, ...]
    ) -> Iterator[Element]:
        for name in names:
            bean = self.find(name)
            if bean is None:
                self._findings.report(owner, f"there is no bean {name!r}", "define it")
            elif bean.name in _COLLECTIONS or _is_map(bean):
                holder = Element(bean.name, "", {}, bean.origin)
                self._add_child(holder, bean, inside)
                yield from holder.children
            else:
                yield self.resolve(bean, inside)

    def _set(self, made: Element, name: str, text: str) -> None:
        value = self._value(made, name, text)
        if value is not None:
            made.attributes[name] = value

    def _value(self, element: Element, name: str, text: str) -> str | None:
        try:
            return self._placeholders.resolve(text)
        except ConfigurationException as error:
            self._findings.report(element, error.reason, error.hint, attribute=name)
            return None


def _with_own_elements(bean: Element) -> Element:
    """Return a bean with elements in place of the attributes `p:name` and `c:name`."""
    attributes: dict[str, str] = {}
    added: list[Element] = []
    for written, text in bean.attributes.items():
        space = next((each for each in (_P, _C) if written.startswith(each)), None)
        if space is None:
            attributes[written] = text
            continue
        name = written.removeprefix(space)
        is_reference = name.endswith("-ref")
        name = name.removesuffix("-ref")
        key = "index" if name.startswith("_") else "name"
        made = {key: _camel_case(name.removeprefix("_")), "ref" if is_reference else "value": text}
        kind = "property" if space == _P else "constructor-arg"
        added.append(Element(kind, "", made, bean.origin))
    return replace(bean, attributes=attributes, children=[*added, *bean.children])


def _camel_case(name: str) -> str:
    return re.sub("-(.)", lambda match: match[1].upper(), name)


def _argument_name(argument: Element, position: int, class_name: str) -> str:
    """Return the property that an argument of a constructor sets."""
    names = _CONSTRUCTORS.get(class_name.rpartition(".")[2], ())
    index = argument.attributes.get("index", "")
    position = int(index) if index.isdecimal() else position
    known = names[position] if position < len(names) else "constructor-arg"
    return argument.attributes.get("name", known)


def _nested_element(made: Element, name: str) -> Element:
    """Return the object that a property holds, `<name><name>`; create it if there is none."""
    outer = made.child(name)
    if outer is None:
        outer = Element(name, "", {}, made.origin, [Element(name, "", {}, made.origin)])
        made.children.append(outer)
    return outer.children[0] if outer.children else outer


def _is_map(element: Element) -> bool:
    """Return whether it is Spring's map; `<map>` is also a property of ActiveMQ."""
    return element.name in ("map", "props") and all(
        each.name in ("entry", "prop", "description") for each in element.children
    )


# --- Files, profiles and values of placeholders.

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
