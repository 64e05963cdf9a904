"""Spring Boot's settings: the names that they have here, and the conversion of whole files.

    conversion = convert_spring_file(Path("application.yml"))
    for name, text in conversion.files().items(): ...  # application.yaml, application-prod.yaml
    for finding in conversion.findings: print(finding)

Keys of a section `spring` that exist here are converted, with their units; an application's own
keys are put below `app`, where placeholders find them as before. Every other key becomes a finding
with file and line: nothing is dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from pyjms.configuration.document import Document, Origin, Problems, dotted_path
from pyjms.configuration.document import Path as KeyPath
from pyjms.configuration.properties_file import read_properties
from pyjms.configuration.validation import valid_part
from pyjms.configuration.yaml_reader import parse_yaml
from pyjms.configuration.yaml_writer import write_yaml
from pyjms.errors import ConfigurationException
from pyjms.settings.model import PyjmsSettings

OUR_NAMES: Final = frozenset(
    {
        "jms.pub_sub_domain", "jms.subscription_durable", "jms.client_id", "jms.cache.enabled",
        "jms.cache.consumers", "jms.cache.producers", "jms.cache.session_cache_size",
        "jms.listener.auto_startup", "jms.listener.min_concurrency",
        "jms.listener.max_concurrency", "jms.listener.receive_timeout",
        "jms.listener.max_messages_per_task", "jms.listener.session.acknowledge_mode",
        "jms.listener.session.transacted", "jms.template.default_destination",
        "jms.template.delivery_mode", "jms.template.priority", "jms.template.time_to_live",
        "jms.template.qos_enabled", "jms.template.delivery_delay",
        "jms.template.receive_timeout", "jms.template.session.acknowledge_mode",
        "jms.template.session.transacted", "activemq.broker_url", "activemq.user",
        "activemq.password", "activemq.embedded.enabled", "activemq.close_timeout",
        "activemq.send_timeout", "activemq.non_blocking_redelivery", "activemq.pool.enabled",
        "activemq.pool.block_if_full", "activemq.pool.block_if_full_timeout",
        "activemq.pool.idle_timeout", "activemq.pool.max_connections",
        "activemq.pool.max_sessions_per_connection", "activemq.pool.time_between_expiration_check",
        "activemq.pool.use_anonymous_producers", "activemq.pool.expiry_timeout",
        "activemq.pool.create_connection_on_startup", "activemq.pool.reconnect_on_exception",
        "lifecycle.timeout_per_shutdown_phase",
    }
)  # fmt: skip

_OLD_NAMES: Final = {
    "jms.listener.concurrency": "jms.listener.min_concurrency",
    "jms.listener.acknowledge_mode": "jms.listener.session.acknowledge_mode",
    "activemq.in_memory": "activemq.embedded.enabled",
    "activemq.pool.maximum_active_session_per_connection": (
        "activemq.pool.max_sessions_per_connection"
    ),
    "management.server.address": "health.host",
    "management.server.port": "health.port",
}

_ABSENT: Final = (
    ("jms.jndi_name", "there is no JNDI in Python; write activemq.broker_url"),
    ("activemq.packages", "objects are never unpickled, so there are no packages to trust"),
    ("artemis", "Artemis speaks OpenWire: write its URL as activemq.broker_url"),
    ("management", "health checks are at health.port, metrics are in observability"),
    ("logging.level", "write the loggers directly below logging, such as logging: {root: INFO}"),
)

_PROFILE_KEYS: Final = ("spring.config.activate.on-profile", "spring.profiles")
_ROOT_LEVEL: Final = "logging.level.root"
_NO_MEANING: Final = (
    ("spring.profiles.active", "set PYJMS_PROFILES, or pyjms run --profiles"),
    ("spring.application", "a program here has no name in its settings"),
    ("spring.main", "it is about Java's program"),
    ("spring.config.import", "there is one file, and one for each profile"),
    ("spring", "it is no setting of JMS"),
    ("server", "it is about Spring's web server"),
    ("logging.level", "loggers here have the names of Python's modules: logging: {pyjms: DEBUG}"),
    ("logging", "logging here has a format and levels: docs/observability.md"),
)
"""Prefixes of keys that are left out, with the reason; the first that fits counts."""
_DOCUMENT_END: Final = re.compile(r"^---[^\S\n]*(?:#.*)?$", re.MULTILINE)
_ISO_DURATION: Final = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.IGNORECASE)
_INDEX: Final = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class SpringConversion:
    """The result of a conversion."""

    values: Mapping[str, dict[str, Any]]
    """The settings by profile; "" are those of all profiles."""
    findings: tuple[str, ...]
    """The keys that are left out: file, line, key, reason."""

    def files(self, stem: str = "application") -> dict[str, str]:
        """Return the texts of the files by their names: application.yaml, application-dev.yaml."""
        return {
            f"{stem}{f'-{profile}' if profile else ''}.yaml": write_yaml(values)
            for profile, values in self.values.items()
        }


def convert_spring_file(path: Path) -> SpringConversion:
    """Convert application.yml or application.properties; blocking."""
    made = _Conversion()
    if path.suffix == ".properties":
        made.convert(_document_of_properties(path))
    else:
        problems = Problems()
        for document in _documents(path, problems):
            made.convert(document)
        problems.raise_all()
    return SpringConversion(made.values, tuple(made.findings))


def _documents(path: Path, problems: Problems) -> Iterator[Document]:
    """Yield the documents of a YAML file, with their lines in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationException(f"{path} cannot be read: {error}") from error
    begin = 0
    for end in [*(match.start() for match in _DOCUMENT_END.finditer(text)), len(text)]:
        before = "\n" * text.count("\n", 0, begin)
        yield parse_yaml(before + text[begin:end], str(path), problems)
        begin = min(text.find("\n", end) % (len(text) + 1), len(text))


def _document_of_properties(path: Path) -> Document:
    values: dict[str, Any] = {}
    lists: dict[str, list[str]] = {}
    for key, text in read_properties(path).items():
        name = _INDEX.sub("", key)
        if name == key:
            _put(values, tuple(key.split(".")), text)
        else:
            lists.setdefault(name, []).append(text)
    for name, items in lists.items():
        _put(values, tuple(name.split(".")), items)
    return Document(values, {(): Origin(str(path))})


@dataclass(frozen=True)
class _Literal:
    """A converted value without placeholders."""

    spring: KeyPath
    path: tuple[str, ...]
    value: object


@dataclass
class _Conversion:
    values: dict[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})
    findings: list[str] = field(default_factory=list)
    _literals: dict[str, list[_Literal]] = field(default_factory=lambda: {"": []})
    """By profile: what the values mean together is known only of these."""

    def convert(self, document: Document) -> None:
        keys = dict(_leaves(document.values, ()))
        profile = ""
        for path, value in keys.items():
            if dotted_path(path) in _PROFILE_KEYS:
                profile = str(value)
        self.values.setdefault(profile, {})
        self._literals.setdefault(profile, [])
        for path, value in keys.items():
            if dotted_path(path) not in _PROFILE_KEYS:
                self._convert_key(document, path, value, profile)
        self._remove_contradictions(document, profile)

    def _convert_key(self, document: Document, path: KeyPath, value: object, profile: str) -> None:
        spring = dotted_path(path)
        parts = spring.split(".")
        ours = _name_here(our_name(spring))
        reason = translate_spring_key(path) or next(
            (why for start, why in _NO_MEANING if f"{spring}.".startswith(f"{start}.")), ""
        )
        if spring == _ROOT_LEVEL:
            reason = self._put_valid(profile, path, ("logging", "root"), str(value).upper())
        elif ours is not None:
            reason = self._put_valid(profile, path, tuple(ours.split(".")), value)
        elif not reason:
            _put(self.values[profile], ("app", *parts[parts[0] == "app" :]), value)
        if reason:
            self._add_finding(document, path, reason)

    def _add_finding(self, document: Document, path: KeyPath, reason: str) -> None:
        where = document.origins.get(path) or document.origins.get((), Origin("?"))
        self.findings.append(f"{where}: {dotted_path(path)}: not converted: {reason}")

    def _put_valid(
        self, profile: str, spring: KeyPath, path: tuple[str, ...], value: object
    ) -> str:
        """Set a value in our units; return why it cannot be set, "" if it is."""
        reason = ""
        has_placeholder = "${" in str(value)
        for written in (_in_our_units(path, value), value):
            literal = _Literal(spring, path, written)
            reason = _first_problem((literal,))
            if not reason or has_placeholder:
                _put(self.values[profile], path, written)
                if not has_placeholder:
                    self._literals[profile].append(literal)
                return ""
        return reason

    def _remove_contradictions(self, document: Document, profile: str) -> None:
        """Remove the last of the values that contradict each other, until none do."""
        own = self._literals[profile]
        others = self._literals[""] if profile else []
        while reason := _first_problem((*others, *own)):
            for last in reversed(own):
                rest = [each for each in own if each is not last]
                if _first_problem((*others, *rest)) != reason:
                    own[:] = rest
                    _remove(self.values[profile], last.path)
                    self._add_finding(document, last.spring, reason)
                    break
            else:
                return  # it is a consequence of another profile's values


def _first_problem(literals: Iterable[_Literal]) -> str:
    """Return the reason why values cannot be set together, "" if they can."""
    trial: dict[str, Any] = {}
    for each in literals:
        _put(trial, each.path, each.value)
    problems = Problems()
    valid_part(PyjmsSettings, Document(trial, {}), translate_spring_key, problems)
    return problems.found[0].reason if problems else ""


def _in_our_units(path: tuple[str, ...], value: object) -> object:
    """Return a value as it is written here: numbers of durations are milliseconds in Spring."""
    kind: Any = PyjmsSettings
    for key in path:
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return value
        found = kind.model_fields.get(key)
        if found is None:
            return value
        kind = found.annotation
    text = str(value).strip()
    is_duration = "float" in str(kind) and kind is not bool
    if is_duration and re.fullmatch(r"\d+", text) and text != "0":
        return f"{text}ms"
    iso = _ISO_DURATION.fullmatch(text)
    if is_duration and iso is not None and any(iso.groups()):
        hours, minutes, seconds = (float(each or 0) for each in iso.groups())
        return f"{hours * 3600 + minutes * 60 + seconds:g}s"
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"-?\d+", text) and "int" in str(kind):
        return int(text)
    if isinstance(value, str) and "." not in text and "Mode" in str(kind):
        return text.lower().replace("-", "_")
    return value


def _put(target: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for key in path[:-1]:
        inner = target.setdefault(key, {})
        if not isinstance(inner, dict):
            inner = target[key] = {"": inner}
        target = inner
    target[path[-1]] = value


def _remove(target: dict[str, Any], path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        target = target[key]
    del target[path[-1]]


def _leaves(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if not isinstance(value, dict) or not value:
        if path:
            yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))


def translate_spring_key(path: KeyPath) -> str | None:
    """Return the explanation for an unknown key that Spring Boot has; None for other keys."""
    name = our_name(dotted_path(path))
    spring = f"Spring Boot's {dotted_path(path)}"
    ours = _name_here(name)
    if ours not in (None, dotted_path(path)):
        return f"{spring} is {ours} here"
    for prefix, reason in _ABSENT:
        if name == prefix or name.startswith(f"{prefix}."):
            return f"{spring} does not exist here: {reason}"
    return None


def _name_here(name: str) -> str | None:
    """Return the key that a key of Spring Boot, in our spelling, is here; None: there is none."""
    return name if name in OUR_NAMES else _OLD_NAMES.get(name)


def our_name(name: str) -> str:
    """Return a Spring Boot name in our spelling: no prefix, snake_case."""
    name = name.removeprefix("spring.")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
