"""Warnings for the operator, in groups of a kind, and those that are muted for a time.

A warning describes the present state, with its reason; there is no guess. None is left out: a group
tells the number of its members, which have pages. What a member is like is told only of those that
are shown, so that 2,000 queues without consumers cost a page little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.console.model.destinations import is_dead_letter_queue, is_paused
from pyjms_broker.management.causes import Finding, time_text
from pyjms_broker.management.diagnosis import warnings
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.situation import is_slow
from pyjms_broker.management.views.clients import clients
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.queue import Queue

_NEARLY_FULL: Final = 90


class Warned(NamedTuple):
    """A member of a group.

    Args:
        where: the destination, client or store.
        why: the state that was found, with numbers.
        link: the page for the remedy, relative to the console.
    """

    where: str
    why: str
    link: str


class Kind(NamedTuple):
    """A kind of warnings.

    Args:
        title: a short description.
        many: what several are, after their number.
        hint: the remedy.
        describe: returns what a member is like.
        is_serious: whether clients are affected now.
    """

    title: str
    many: str
    hint: str
    describe: Callable[[Any], Warned]
    is_serious: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The warnings of one kind."""

    kind: Kind
    members: Sequence[Any]

    @property
    def is_serious(self) -> bool:
        """Whether clients are affected now."""
        return self.kind.is_serious

    def describe_page(self, number: int, size: int) -> list[Warned]:
        """Return what the members of a page are like."""
        return [self.kind.describe(each) for each in self.members[number * size :][:size]]

    @property
    def text(self) -> str:
        """The group in a line, as in `197 queues have no consumer`."""
        if len(self.members) > 1:
            return f"{len(self.members):,} {self.kind.many}"
        return f"{self.kind.title}: {self.kind.describe(self.members[0]).where}"


def _of_queue(page: str, why: Callable[[RegionDestination], str]) -> Callable[[Any], Warned]:
    key = "queue" if page == "dead-letters" else "name"

    def describe(queue: RegionDestination) -> Warned:
        name = queue.destination.physical_name
        return Warned(name, why(queue), f"{page}?{urlencode({key: name})}")

    return describe


def _has(queue: RegionDestination) -> str:
    messages = queue.statistics.messages
    text = f"it has {messages:,} message{'' if messages == 1 else 's'}"
    arrival = queue.oldest_arrival() if isinstance(queue, Queue) else 0
    if not arrival:
        return text
    age = time_text((_clock.time_ms() - arrival) / 1000)
    return f"{text}, {'the oldest ' if messages > 1 else ''}for {age}"


def _full(member: tuple[str, int, int, str]) -> Warned:
    name, percent, limit, then = member
    why = f"{percent} % of {limit:,} bytes are used{f': {then}' if percent >= 100 else ''}"
    return Warned(name, why, "queues?sort=pending&descending=1")


def _blocked_connection(client: Any) -> Warned:
    waiting, name = len(client.state.context.blocked_sends), client.state.context.client_id or ""
    address = client.transport.remote_address
    many = "s wait" if waiting > 1 else " waits"
    return Warned(name, f"{waiting} send{many} for space ({address})", "connections")


def _no_bridge(member: tuple[str, str, str]) -> Warned:
    connector, remote, reason = member
    return Warned(connector, f"there is none to {remote}: {reason}", "connections")


def _offline(subscription: DurableTopicSubscription) -> Warned:
    key = subscription.key
    return Warned(
        f"{key.client_id} / {key.subscription_name}",
        f"{subscription.pending_count:,} messages of {subscription.requested.physical_name} are"
        " kept for it, and it has no consumer",
        "subscribers",
    )


def _slow(subscription: Any) -> Warned:
    name = subscription.requested.physical_name
    return Warned(
        f"{subscription.context.client_id or 'NOTSET'} on topic {name}",
        f"it has {subscription.in_flight:,} unacknowledged messages of a prefetch of"
        f" {subscription.prefetch_size:,}, and {subscription.pending_count:,} wait for it",
        f"topic?{urlencode({'name': name})}",
    )


def _waits(member: tuple[Destination, Finding]) -> Warned:
    destination, finding = member
    name = destination.physical_name
    return Warned(name, finding.text, f"why?{urlencode({'name': name})}")


def _not_examined(count: int) -> Warned:
    return Warned(
        f"{count:,} queues",
        "only the first of them were looked at",
        "queues?sort=pending&descending=1",
    )


_USAGE: Final = (
    ("Memory", "memory", "senders wait until consumers acknowledge"),
    ("Store", "store", "senders of persistent messages wait"),
    ("Temp store", "temp", "non-persistent messages cannot be paged out"),
    ("Job store", "job_scheduler", "no message can be scheduled"),
)


def _usage_kind(name: str, key: str, state: str) -> Kind:
    hint = f"consume or purge messages, or raise {key}_limit in broker.yaml"
    return Kind(f"{name} {state}", "", hint, _full, state == "full")


_FULL: Final = {
    (name, state): _usage_kind(name, key, state)
    for name, key, _ in _USAGE
    for state in ("full", "nearly full")
}
_BLOCKED: Final = Kind(
    "Blocked producer",
    "clients have senders that wait for space",
    "let consumers catch up, or raise the limit of the memory or of the destination",
    _blocked_connection,
    is_serious=True,
)
_NO_BRIDGE: Final = Kind(
    "No bridge",
    "bridges are missing",
    "start the remote broker, or correct its address, user or password; messages for its"
    " consumers wait here",
    _no_bridge,
    is_serious=True,
)
_SLOW: Final = Kind(
    "Slow consumer",
    "consumers are slow",
    "check whether it is stuck, add consumers, or lower its prefetch",
    _slow,
    is_serious=True,
)
_PAUSED: Final = Kind(
    "Paused queue with messages",
    "queues with messages are paused",
    "resume it",
    _of_queue("queue", lambda queue: f"{_has(queue)}, and nothing is dispatched"),
    is_serious=True,
)
_OFFLINE: Final = Kind(
    "Offline subscription with messages",
    "durable subscriptions with messages have no consumer",
    "start its consumer, or delete the subscription",
    _offline,
)
_DEAD: Final = Kind(
    "Dead letters",
    "queues have dead letters",
    "see their reasons; retry, move or delete them",
    _of_queue("dead-letters", lambda queue: f"{_has(queue)}, which no consumer could process"),
)
_NOBODY: Final = Kind(
    "Nobody listens",
    "queues with messages have no consumer",
    "start a consumer, or move or purge the messages",
    _of_queue("queue", lambda queue: f"{_has(queue)}, and no consumer"),
)
_LEFT: Final = Kind("More queues whose messages wait", "", "see their pages", _not_examined)


async def find_warnings(context: ManagementContext) -> list[Group]:
    """Return all warnings in groups, the serious ones first. Cancellable."""
    found: dict[Kind, list[Any]] = {}
    slices = Slices()
    waiting, left = await warnings(context)
    for destination, finding in waiting:
        kind = Kind(finding.title, f"queues: {finding.title}", finding.hint, _waits, True)
        found.setdefault(kind, []).append((destination, finding))
    if left:
        found[_LEFT] = [left]
    every = chain(
        _usage(context), _blocked_clients(context), _networks(context), _subscriptions(context)
    )
    for member in chain(every, _destinations(context)):
        if member is not None:
            found.setdefault(member[0], []).append(member[1])
        await slices.after_item()
    groups = [Group(kind, members) for kind, members in found.items()]
    return sorted(groups, key=lambda each: not each.is_serious)


def _usage(context: ManagementContext) -> Iterator[tuple[Kind, Any]]:
    usage = context.host.system_usage
    for name, key, then in _USAGE:
        of = getattr(usage, key)
        percent = of.percent
        if percent >= _NEARLY_FULL:
            state = "full" if percent >= 100 else "nearly full"
            yield _FULL[name, state], (name, percent, of.limit, then)


def _blocked_clients(context: ManagementContext) -> Iterator[tuple[Kind, Any] | None]:
    for client in clients(context):
        yield (_BLOCKED, client) if client.state.context.blocked_sends else None


def _networks(context: ManagementContext) -> Iterator[tuple[Kind, Any]]:
    for connector in context.host.networks.connectors:
        for remote, reason in connector.missing_bridges:
            yield _NO_BRIDGE, (connector.name, remote, reason)


def _subscriptions(context: ManagementContext) -> Iterator[tuple[Kind, Any] | None]:
    for each in tuple(context.region.subscriptions.all()):
        if isinstance(each, DurableTopicSubscription) and not each.is_active:
            yield (_OFFLINE, each) if each.pending_count else None
        else:
            yield (_SLOW, each) if each.requested.is_topic and is_slow(each) else None


def _destinations(context: ManagementContext) -> Iterator[tuple[Kind, Any] | None]:
    for destination, entry in context.destinations().items():
        base = entry.base
        if not base.statistics.messages:
            yield None
        elif is_dead_letter_queue(base):
            yield _DEAD, base
        elif is_paused(base):
            yield _PAUSED, base
        elif not base.statistics.consumers and destination.is_queue:
            yield _NOBODY, base
        else:
            yield None


class Mute(NamedTuple):
    """What is muted: a kind, or one of its members; until when, in seconds of the clock."""

    title: str
    where: str
    until: float

    @property
    def left(self) -> float:
        """Seconds until it is shown again."""
        return self.until - _clock.now()


_MOST_MUTED: Final = 1000


class Mutes:
    """The warnings of one broker that are muted, until their time or the broker's end."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def add(self, title: str, where: str, seconds: float) -> None:
        """Mute a kind of warnings, or with `where` one of them."""
        self._until[title, where] = _clock.now() + seconds
        while len(self._until) > _MOST_MUTED:
            del self._until[min(self._until, key=lambda each: self._until[each])]

    def remove(self, title: str, where: str) -> None:
        """Show the warnings again."""
        self._until.pop((title, where), None)

    def all(self) -> list[Mute]:
        """Return what is muted, also where there is no warning now."""
        now = _clock.now()
        self._until = {key: until for key, until in self._until.items() if until > now}
        return [Mute(*key, until) for key, until in self._until.items()]

    def divide(self, groups: Sequence[Group]) -> tuple[list[Group], int]:
        """Return the groups that are shown, and the number of warnings that are muted."""
        shown: list[Group] = []
        muted = 0
        every = {(each.title, each.where) for each in self.all()}
        single = {title for title, where in every if where}
        for group in groups:
            title, members = group.kind.title, group.members
            if (title, "") in every:
                members = []
            elif title in single:
                members = [
                    each
                    for each in members
                    if (title, group.kind.describe(each).where) not in every
                ]
            muted += len(group.members) - len(members)
            if members:
                shown.append(Group(group.kind, members))
        return shown, muted
