"""The policies in force, and the YAML of an entry to paste into broker.yaml.

The most specific entry applies alone, so that the entry for one destination has to repeat the
settings of the entry that it replaces. Only what differs from the defaults is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import yaml

from pyjms.configuration.yaml_writer import write_yaml
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination
from pyjms_broker.attribute import Unit, documentation_of
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyAttributes, PolicyEntry

ATTRIBUTES: Final[Mapping[str, str]] = {
    name: each.description for name, each in sorted(documentation_of(PolicyAttributes).items())
}
"""What each attribute of a policy that is a plain value means."""
MOST: Final = 200
"""The maximum number of entries on a page."""
_KINDS: Final = re.compile(
    r"(Message)?EvictionStrategy$|(PendingMessageLimit|DeadLetter|Consumer)Strategy$"
    r"|SubscriptionRecoveryPolicy$"
)
_MESSAGE: Final = re.compile(r"Message(?=With)")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DEFAULT: Final = PolicyEntry()
_OWN: Final = ("destination", "temp_queue", "temp_topic", "is_built_in")


class Policy(NamedTuple):
    """A policy entry.

    Args:
        target: the destinations that it is for.
        settings: what differs from the defaults.
        is_built_in: whether broker.yaml has no entry for these destinations.
    """

    target: str
    settings: Mapping[str, object]
    is_built_in: bool = False


def policies(context: ManagementContext) -> list[Policy]:
    """Return the entries in force, at most `MOST`, and the default entry."""
    found = context.region.policy_map
    result = [_policy(entry) for entry in islice(found.entries, MOST)]
    if found.default_entry is not None:
        result.append(_policy(found.default_entry))
    return sorted(result, key=lambda each: each.target)


def policy_for(context: ManagementContext, destination: Destination) -> Policy:
    """Return the policy in force for a destination."""
    return _policy(context.region.policy_map.entry_for(destination))


def _policy(entry: PolicyEntry) -> Policy:
    target = "all others"
    if entry.destination is not None:
        target = entry.destination.qualified_name
    elif entry.temp_queue or entry.temp_topic:
        target = "temporary queues" if entry.temp_queue else "temporary topics"
    defaults = _written(_DEFAULT, PolicyEntry)
    settings = {
        name: value
        for name, value in _written(entry, PolicyEntry).items()
        if name not in _OWN and value != defaults[name]
    }
    return Policy(target, settings, entry.is_built_in)


def _written(owner: object, kind: type[Any]) -> dict[str, object]:
    """Return the fields of an object as in broker.yaml."""
    known = documentation_of(kind)
    found: dict[str, object] = {}
    for field in fields(kind):
        value = getattr(owner, field.name) if field.init else None
        if field.init:
            is_time = field.name in known and known[field.name].unit is Unit.SECONDS
            is_time = is_time and isinstance(value, int | float)
            found[field.name] = f"{value:g}s" if is_time else _value(value)
    return found


def _value(value: object) -> object:
    """Return a value as in broker.yaml: a strategy as its type and what differs from defaults."""
    if isinstance(value, Destination):
        return value.qualified_name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if not is_dataclass(value) or isinstance(value, type):
        return f"({type(value).__name__})"
    name = _KINDS.sub("", type(value).__name__)
    kind = _HUMP.sub("_", _MESSAGE.sub("", name)).lower()
    found: dict[str, object] = {}
    if name != type(value).__name__:
        found["type"] = "none" if kind == "no" else kind
    defaults = {field.name: field.default for field in fields(value)}
    written = _written(value, type(value))
    found |= {key: each for key, each in written.items() if getattr(value, key) != defaults[key]}
    if isinstance(value, SharedDeadLetterStrategy):  # what it has besides its fields
        queue = value.dead_letter_queue
        if queue.physical_name != DEFAULT_DEAD_LETTER_QUEUE:
            found["dead_letter_queue"] = queue.qualified_name
    return found


def policy_yaml(destination: Destination, settings: Mapping[str, object]) -> str:
    """Return the section of broker.yaml with an entry for a destination."""
    name = destination.qualified_name.removeprefix("queue://")
    return write_yaml({"policies": [{"destination": name, **settings}]})


def with_change(settings: Mapping[str, object], name: str, value: str) -> dict[str, object]:
    """Return the settings with another value of one of `ATTRIBUTES`; empty: without it."""
    changed = {key: each for key, each in settings.items() if key != name}
    if name in ATTRIBUTES and value:
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            read = value
        changed[name] = read if read is None or isinstance(read, bool | int | float) else value
    return changed
