"""What broker.yaml says: policies, users and rights in force, and the YAML of a change to paste.

The most specific policy entry applies alone, so that the entry for one destination has to repeat
the settings of the entry that it replaces. Only what differs from the defaults is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import yaml

from pyjms.configuration.yaml_writer import write_yaml
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination
from pyjms.runtime.slices import Slices
from pyjms_broker.api.access import Right
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.attribute import Unit, documentation_of
from pyjms_broker.console.model.destinations import Page, page_of
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyAttributes, PolicyEntry
from pyjms_broker.security.authentication import AuthenticationBroker
from pyjms_broker.security.authorization import AuthorizationBroker, AuthorizationEntry

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
    defaults = _yaml_values(_DEFAULT, PolicyEntry)
    settings = {
        name: value
        for name, value in _yaml_values(entry, PolicyEntry).items()
        if name not in _OWN and value != defaults[name]
    }
    return Policy(target, settings, entry.is_built_in)


def _yaml_values(owner: object, kind: type[Any]) -> dict[str, object]:
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
    written = _yaml_values(value, type(value))
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


# --- Users with their groups, and the rights of groups, as the security filters have them.


class UserRow(NamedTuple):
    """A user, the groups, and the number of connections."""

    name: str
    groups: list[str]
    connections: int


def _filters(context: ManagementContext) -> Iterator[BrokerFilter]:
    broker = context.host.broker
    while isinstance(broker, BrokerFilter):
        yield broker
        broker = broker.next


async def user_page(
    context: ManagementContext, text: str, number: int, size: int
) -> Page[UserRow] | None:
    """Return a page of the users with `text` in their names or groups. Cancellable.

    None: the broker has no users, or they are in a directory that it does not list.
    """
    every: dict[str, frozenset[str]] = {}
    is_known = False
    for each in _filters(context):
        found = each.user_groups if isinstance(each, AuthenticationBroker) else None
        if found is not None:
            is_known = True
            every.update(found)
    if not is_known:
        return None
    counts: Counter[str] = Counter()
    slices = Slices()
    for client in clients(context):
        counts[client.state.context.user_name or ""] += 1
        await slices.after_item()
    wanted = text.lower()
    rows = sorted(
        UserRow(name, sorted(groups), counts[name])
        for name, groups in every.items()
        if wanted in name.lower() or any(wanted in group.lower() for group in groups)
    )
    return page_of(rows, number, size)


class Rights(NamedTuple):
    """The groups with each right on the destinations of an entry."""

    target: str
    read: str
    write: str
    admin: str


def rights(context: ManagementContext, most: int) -> list[Rights] | None:
    """Return the entries of rights, at most `most`; None: every user may do everything."""
    found = [each.rights for each in _filters(context) if isinstance(each, AuthorizationBroker)]
    if not found:
        return None
    result: list[Rights] = []
    for each in found:
        if each.default_entry is not None:
            result.append(_rights("all destinations", each.default_entry))
        if each.temporary_entry is not None:
            result.append(_rights("temporary destinations", each.temporary_entry))
        result += [
            _rights("" if entry.destination is None else entry.destination.qualified_name, entry)
            for entry in each.entries[:most]
        ]
    return result


def _rights(target: str, entry: AuthorizationEntry) -> Rights:
    read, write, admin = (
        ",".join(sorted(entry.groups(right))) for right in (Right.READ, Right.WRITE, Right.ADMIN)
    )
    return Rights(target, read, write, admin)


def user_yaml(name: str, groups: list[str]) -> str:
    """Return the section of broker.yaml with a user, without the password."""
    user = {"username": name, "password": "${PASSWORD}", "groups": groups}
    return write_yaml({"plugins": [{"type": "simple_authentication", "users": [user]}]})


def rights_yaml(found: Rights) -> str:
    """Return the section of broker.yaml with an entry of rights."""
    name = found.target.removeprefix("queue://")
    entry = {"destination": name, "read": found.read, "write": found.write, "admin": found.admin}
    return write_yaml({"plugins": [{"type": "authorization", "entries": [entry]}]})
