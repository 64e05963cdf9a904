"""Users with their groups, and the rights of groups, as the security filters have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pyjms.configuration.yaml_writer import write_yaml
from pyjms.runtime.slices import Slices
from pyjms_broker.api.access import Right
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.console.model.destinations import Page, page_of
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.security.authentication import AuthenticationBroker
from pyjms_broker.security.authorization import AuthorizationBroker, AuthorizationEntry


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
