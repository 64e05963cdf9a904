"""Generate the reference config/broker.yaml from the settings models, and the JSON Schema.

Keys, defaults and comments come from the models. This module declares the rest: the header, and
examples of keys whose default is null or an empty list. After changing a model, run `make docs`,
which runs this module; a test compares the committed file with `broker_reference()`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pyjms.configuration.logs import LogFileSettings
from pyjms.configuration.section import Bytes, Duration, field_descriptions
from pyjms_broker.attribute import Attribute, Unit
from pyjms_broker.settings import persistence, policies
from pyjms_broker.settings.loading import broker_schema
from pyjms_broker.settings.model import (
    BrokerLoggingSettings,
    BrokerSettings,
    ConnectorSettings,
    ConnectorTlsSettings,
    NetworkConnectorSettings,
    WebSettings,
)
from pyjms_broker.settings.plugins import BUILT_IN_PLUGINS, plugin_settings

_HEADER: Final = """\
# yaml-language-server: $schema=../docs/broker.schema.json
#
# Every key of broker.yaml with its default, for `pyjms broker start --config FILE`. Copy the keys
# that you change. Lines that begin with #| are examples: remove that mark to use them. Lines that
# begin with #2| or #3| are other examples of the same key.
#
# Profiles (PYJMS_PROFILES=test) add broker-test.yaml on top, if it exists. Environment variables
# override the files: PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT=256mb.
# ${NAME} and ${NAME:default} are environment variables or keys of this file.
# Durations have a unit: 500ms, 30s, 5m, 1h; only 0 needs none. Sizes are bytes, or have kb, mb, gb.
#
# Generated from the settings models: see pyjms_broker/settings/reference.py.

"""
_MAPPINGS: Final = ("persistence", "web", "logging")
"""Keys whose value is a section, not a list."""
_COMMENT_COLUMN: Final = 38
_WIDTH: Final = 120
_FIRST: Final = ("type", "uri", "directory", "destination", "temp_queue", "temp_topic", "path")
"""Keys that come first in a section."""


class _Example(NamedTuple):
    """An example section: all keys of a model, with given values instead of some defaults."""

    model: type[BaseModel]
    values: Mapping[str, object] = {}
    choices: str = ""
    """The comment on `type`: its other possible values."""


class _Text(NamedTuple):
    """An example written verbatim."""

    lines: str


_DEAD_LETTERS: Final = _Example(
    policies.IndividualDeadLetterSettings,
    {"type": "individual", "queue_suffix": ".dead", "topic_suffix": ".dead"},
    "shared (with dead_letter_queue), individual, discarding",
)
_FURTHER_POLICIES: Final = """\
- destination: topic://prices.>
  dead_letter_strategy: {type: shared, dead_letter_queue: prices.dead}
  pending_message_limit_strategy: {type: constant, limit: 1000}
  message_eviction_strategy:
    type: unique_property             # oldest, oldest_with_lowest_priority, unique_property
    property_name: symbol
    evict_expired_messages_high_watermark: 1000
  slow_consumer_strategy:
    type: abort_slow                  # abort_slow, abort_slow_ack
    max_slow_count: -1                # Number of times a consumer may become slow; -1: unlimited
    max_slow_duration: 30s            # Time for which it may be slow; 0: unlimited
    check_period: 30s                 # Time between checks
    abort_connection: false           # Whether its connection is closed instead of the consumer
    ignore_network_consumers: true    # Whether consumers of network bridges are exempt
  subscription_recovery_policy: {type: fixed_count, maximum_size: 100}
- destination: eu.>
  network_bridge_filter_factory:      # What networks of brokers forward; see docs/networks.md
    {replay_when_no_consumers: true, replay_delay: 1s, rate_limit: 9, rate_duration: 1s,
     selector_aware: true}
- destination: topic://logs.>
  dead_letter_strategy: {type: discarding}
  pending_message_limit_strategy: {type: prefetch_rate, multiplier: 0.5}
  slow_consumer_strategy:             # with the keys of abort_slow, and:
    type: abort_slow_ack
    max_time_since_last_ack: 30s      # Time without an acknowledgement after which it is slow
    ignore_idle_consumers: true       # Whether consumers without messages in flight are never slow
  # or last_image, fixed_sized (maximum_size: 64kb), query_based (query: NAME), none
  subscription_recovery_policy: {type: timed, recover_duration: 60s}"""
_STORES: Final = """\
- queue: orders.>                     # names or patterns; the other keys as for kahadb
  per_destination: true               # each destination has its own store
  store_limit: 1gb                    # 0: no separate limit
- topic: news.>
  journal: {disk_sync_strategy: periodic}
- {}                                  # all other destinations"""
_TARGETS: Final = """\
- destination: orders.eu
  selector: region = 'EU'             # without: all messages
- destination: topic://orders.audit"""

_USERS: Final = """\
- username: system
  # pyjms broker passwd prints it
  password: $scrypt$ln=15,r=8,p=1$U29kaXVtQ2hsb3JpZGU$TW9yZSBieXRlcyB0aGFuIHRoaXJ0eS10d28
  groups: admins,users"""
_RIGHTS: Final = """\
- {destination: ">", read: admins, write: admins, admin: admins}  # all queues
- {destination: "topic://>", read: admins, write: admins, admin: admins}
- {destination: "orders.>", read: warehouse, write: "shop,warehouse", admin: warehouse}
- {destination: "topic://ActiveMQ.Advisory.>", read: "*", write: "*", admin: "*"}"""
_PLUGINS: Final[Mapping[str, Mapping[str, object]]] = {
    "simple_authentication": {"users": _Text(_USERS)},
    "authorization": {"entries": _Text(_RIGHTS)},
    "redelivery": {
        "redelivery_policy_map": _Text(
            """\
- destination: orders.>               # null: all destinations without another policy
  maximum_redeliveries: 6             # Maximum number of redeliveries; -1: unlimited
  initial_redelivery_delay: 1s        # Time before the first redelivery, 1s or more
  redelivery_delay: 1s                # Time before each further redelivery, 1s or more
  use_exponential_back_off: false     # Whether this time is multiplied for each further redelivery
  back_off_multiplier: 5              # Factor of the time; 1 or less: no multiplication
  maximum_redelivery_delay: 0         # Maximum time; 0: unlimited
  use_collision_avoidance: false      # Whether the times of further redeliveries vary randomly
  collision_avoidance_percent: 15     # Maximum variation in percent"""
        )
    },
}

_Item = _Example | _Text
_EXAMPLES: Final[Mapping[str, tuple[tuple[_Item, ...], ...]]] = {
    "persistence": (
        (
            _Example(
                persistence.KahaDBPersistenceSettings,
                {"directory": "activemq-data/localhost/KahaDB"},
                "multi_kahadb, jdbc, journaled_jdbc (see below), memory",
            ),
        ),
        (
            _Example(
                persistence.JournaledJDBCPersistenceSettings,
                {"type": "journaled_jdbc"},
                "jdbc: without the keys journal_log_files to use_journal",
            ),
        ),
        (
            _Example(
                persistence.MultiKahaDBPersistenceSettings,
                {
                    "type": "multi_kahadb",
                    "directory": "activemq-data/localhost/mKahaDB",
                    "filtered_kahadb": _Text(_STORES),
                    "transaction_journal": {},
                },
            ),
        ),
    ),
    "connectors": (
        (
            _Example(ConnectorSettings, {"name": "openwire", "uri": "tcp://127.0.0.1:61616"}),
            _Example(ConnectorSettings, {"name": "stomp", "uri": "stomp://127.0.0.1:61613"}),
            _Example(
                ConnectorSettings,
                {
                    "name": "ssl",
                    "uri": "ssl://127.0.0.1:61617",
                    "tls": _Example(
                        ConnectorTlsSettings,
                        {
                            "key_store": "broker.pem",
                            "trust_store": "clients-ca.pem",
                            "need_client_auth": True,
                        },
                    ),
                },
            ),
        ),
    ),
    "network_connectors": (
        (_Example(NetworkConnectorSettings, {"uri": "static:(tcp://b:61616)", "name": "to-b"}),),
    ),
    "plugins": (
        tuple(
            _Example(plugin_settings(name), {"type": name, **_PLUGINS.get(name, {})})
            for name in BUILT_IN_PLUGINS
        ),
    ),
    "logging": (
        (
            _Example(
                BrokerLoggingSettings,
                {
                    "file": _Example(LogFileSettings, {"path": "log/broker.log"}),
                    "audit": _Text("path: log/audit.log                 # with the keys of file"),
                },
            ),
            _Text("root: INFO                          # Level of all loggers"),
            _Text("pyjms_broker.network: DEBUG         # Level of one logger"),
        ),
    ),
    "web": ((_Example(WebSettings, {"tls": None, "reader_groups": frozenset({"operators"})}),),),
    "destinations": ((_Text('[orders.new, "topic://news"]'),),),
    "policies": (
        (
            _Example(
                policies.PolicySettings,
                {
                    "destination": "orders.>",
                    "memory_limit": 64 << 20,
                    "send_fail_if_no_space": False,
                    "send_fail_if_no_space_after_timeout": 10.0,
                    "dead_letter_strategy": _DEAD_LETTERS,
                    "pending_message_limit_strategy": None,
                    "message_eviction_strategy": None,
                    "slow_consumer_strategy": None,
                    "subscription_recovery_policy": None,
                    "network_bridge_filter_factory": None,
                },
            ),
            _Text(_FURTHER_POLICIES),
        ),
    ),
    "virtual_destinations": (
        (
            _Example(policies.VirtualTopicSettings, {"type": "virtual_topic"}),
            _Example(
                policies.CompositeQueueSettings,
                {"type": "composite_queue", "name": "orders.all", "forward_to": _Text(_TARGETS)},
                "or composite_topic",
            ),
        ),
    ),
}


class _Line(NamedTuple):
    """A line of the file with its comment."""

    text: str
    comment: str = ""

    def indent(self, prefix: str = "  ") -> _Line:
        return self._replace(text=prefix + self.text)

    def render(self, mark: str = "") -> str:
        """Return the line, preceded by its comment if both do not fit on one line."""
        if not self.comment:
            return f"{mark}{self.text}\n"
        line = f"{mark}{self.text:<{_COMMENT_COLUMN - 2 - len(mark)}}  # {self.comment}"
        if len(line) <= _WIDTH:
            return f"{line}\n"
        indent = " " * (len(self.text) - len(self.text.lstrip(" -")))
        return f"{mark}{indent}# {self.comment}\n{mark}{self.text}\n"


def broker_reference() -> str:
    """Return the text of config/broker.yaml."""
    return _HEADER + "".join(_document())


def _document() -> Iterator[str]:
    settings = BrokerSettings()
    follows_structure = False
    for name in BrokerSettings.model_fields:
        value, examples = getattr(settings, name), _EXAMPLES.get(name, ())
        is_structure = bool(examples) or isinstance(value, BaseModel)
        if is_structure or follows_structure:
            yield "\n"
        follows_structure = is_structure
        shown = {} if examples and isinstance(value, BaseModel) else value  # the example has all
        yield from (line.render() for line in _entry(BrokerSettings, name, shown))
        for number, items in enumerate(examples, 1):
            mark = "#|" if number == 1 else f"#{number}|"
            yield from (line.render(mark) for line in _example(name, items))


def _example(name: str, items: tuple[_Item, ...]) -> Iterator[_Line]:
    first = items[0]
    if isinstance(first, _Text) and first.lines.startswith("["):
        yield _Line(f"{name}: {first.lines}")
        return
    yield _Line(f"{name}:")
    for item in items:
        lines = list(_section(item)) if isinstance(item, _Example) else _lines_of(item)
        if isinstance(item, _Example) and name not in _MAPPINGS:
            lines = [line.indent("  " if index else "- ") for index, line in enumerate(lines)]
        yield from (line.indent() for line in lines)


def _section(example: _Example) -> Iterator[_Line]:
    model = example.model
    for name in sorted(model.model_fields, key=lambda each: (*_FIRST, each).index(each)):
        value = example.values[name] if name in example.values else _default_of(model, name)
        if isinstance(value, _Example | _Text):
            lines = _section(value) if isinstance(value, _Example) else _lines_of(value)
            yield _Line(f"{name}:", _comment_of(model, name))
            yield from (line.indent() for line in lines)
        else:
            comment = example.choices if name == "type" else _comment_of(model, name)
            yield from _entry(model, name, value, comment)


def _lines_of(example: _Text) -> list[_Line]:
    lines = []
    for line in example.lines.splitlines():
        text, _, comment = line.partition("  # ")
        lines.append(_Line(text.rstrip(), comment))
    return lines


def _entry(
    model: type[BaseModel], name: str, value: object, comment: str | None = None
) -> Iterator[_Line]:
    comment = _comment_of(model, name) if comment is None else comment
    if isinstance(value, BaseModel):
        yield _Line(f"{name}:", comment)
        for inner in type(value).model_fields:
            lines = _entry(type(value), inner, getattr(value, inner))
            yield from (line.indent() for line in lines)
    else:
        yield _Line(f"{name}: {_yaml_of(value, model.model_fields[name])}", comment)


def _default_of(model: type[BaseModel], name: str) -> object:
    default = model.model_fields[name].get_default(call_default_factory=True)
    assert default is not PydanticUndefined, "a required key needs a value in its example"
    return default


def _comment_of(model: type[BaseModel], name: str) -> str:
    attribute = _attribute_of(model.model_fields[name])
    text = field_descriptions(model).get(name, "") if attribute is None else attribute.description
    return " ".join(text.split()).removesuffix(".")


def _attribute_of(field: FieldInfo) -> Attribute | None:
    return next((each for each in field.metadata if isinstance(each, Attribute)), None)


def _yaml_of(value: object, field: FieldInfo) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[]"
    if isinstance(value, frozenset):
        return ",".join(sorted(value)) or "[]"
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, str | Path):
        return str(value) or '""'
    assert isinstance(value, int | float)
    unit = _unit_of(field)
    if unit in (Unit.BYTES, Unit.LIMIT):
        return _size(int(value))
    return _duration(value) if unit is Unit.SECONDS else str(value)


def _unit_of(field: FieldInfo) -> Unit | None:
    attribute = _attribute_of(field)
    if attribute is not None:
        return attribute.unit
    metadata = [*field.metadata]
    for kind in get_args(field.annotation):
        metadata += getattr(kind, "__metadata__", ())
    for unit, alias in ((Unit.BYTES, Bytes), (Unit.SECONDS, Duration)):
        if any(each in metadata for each in get_args(alias)[1:]):
            return unit
    return None


def _size(size: int) -> str:
    for factor, unit in ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb")):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _duration(seconds: float) -> str:
    if not seconds:
        return "0"
    if seconds % 60 == 0 and seconds > 60:
        return f"{seconds / 60:g}m"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


if __name__ == "__main__":
    Path("config/broker.yaml").write_text(broker_reference(), encoding="utf-8")
    Path("docs/broker.schema.json").write_text(
        json.dumps(broker_schema(), indent=2) + "\n", encoding="utf-8"
    )
