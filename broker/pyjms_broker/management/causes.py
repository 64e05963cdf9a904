"""Why is nothing delivered? The causes, each with a title, a remedy and what finds it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.selector import Selector
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.situation import (
    MOST_CONSUMERS,
    STALLED,
    Situation,
    age_of,
    is_stalled,
    name_of,
    unacknowledged_for,
    wish_of,
)
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import PrefetchSubscription
from pyjms_broker.security.authorization import AuthorizationBroker, Refusal

_REMEMBERED: Final = 3600.0
"""Seconds for which a refusal of a right is told."""
_QUOTED: Final = 200


class Finding(NamedTuple):
    """One reason why messages are not delivered."""

    cause: str
    """The name of the cause, as in the table."""
    title: str
    text: str
    """The state that was found, with numbers."""
    hint: str
    """The remedy."""
    consumer: str
    """The consumer that it is about; empty: none."""
    is_serious: bool
    """Whether messages wait that would be delivered otherwise."""


Evidence: TypeAlias = tuple[str, Subscription | None]
"""The text of a finding, and the consumer that it is about."""
_Find: TypeAlias = Callable[[Situation], Iterator[Evidence]]


class Cause(NamedTuple):
    """A cause: how it is called, what helps, and the function that finds it."""

    name: str
    title: str
    hint: str
    find: _Find
    is_serious: bool = True


CAUSES: Final[list[Cause]] = []
"""All causes, in the order in which they are told: what stops everything comes first."""


def _cause(
    name: str, title: str, hint: str, *, is_serious: bool = True
) -> Callable[[_Find], _Find]:
    def add(find: _Find) -> _Find:
        CAUSES.append(Cause(name, title, hint, find, is_serious))
        return find

    return add


def many(count: int, word: str, verb: str = "") -> str:
    """Return `1 message waits`, `2 messages wait`."""
    if count == 1:
        return f"1 {word}{f' {verb}s' if verb else ''}".replace(" ares", " is")
    return f"{count:,} {word}s{f' {verb}' if verb else ''}"


def time_text(seconds: float) -> str:
    """Return a time as `42 s`, `2 min 5 s` or `3 h 4 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@_cause("paused", "Paused queue with messages", "resume it")
def _paused_queue(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.dispatcher.is_paused:
        yield f"{many(s.waiting, 'message', 'wait')}, and nothing is dispatched", None


@_cause(
    "start",
    "Dispatch has not begun",
    "start more consumers, or change consumers_before_dispatch_starts of its policy",
)
def _delayed_dispatch(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.dispatcher.is_delayed:
        policy = s.queue.policy
        text = (
            f"it has {many(len(s.consumers), 'consumer')}, and its policy waits for"
            f" {policy.consumers_before_dispatch_starts} consumers or"
            f" {time_text(policy.time_before_dispatch_starts or 1)}"
        )
        yield text, None


@_cause("lease", "Leased to a range reader", "stop the reader, or wait for its end")
def _leased_queue(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.reader is not None and s.queue.reader.is_leased:
        yield "a range reader (Spark) has leased the queue, and removes what it has read", None


@_cause("no_consumer", "Nobody listens", "start a consumer, or move or purge the messages")
def _no_consumer(s: Situation) -> Iterator[Evidence]:
    text = f"it has {many(s.waiting, 'message')} and no consumer"
    if s.queue is not None and s.waiting and not s.consumers:
        if s.similar is not None:
            count = many(s.similar.statistics.consumers, "consumer")
            text += f" (did you mean {s.similar.destination.physical_name}, which has {count}?)"
        yield text, None
    if s.waiting and _is_offline(s.chosen):
        yield text, s.chosen


@_cause("no_consumer", "Nobody listens", "start its consumer", is_serious=False)
def _offline(s: Situation) -> Iterator[Evidence]:
    if not s.waiting and _is_offline(s.chosen):
        yield "it has no message and no consumer", s.chosen


def _is_offline(subscription: Subscription | None) -> bool:
    return isinstance(subscription, DurableTopicSubscription) and not subscription.is_active


@_cause(
    "similar_name",
    "A queue of a similar name has messages",
    "compare the names of the queue in the sender and in the consumer",
    is_serious=False,
)
def _similar_name(s: Situation) -> Iterator[Evidence]:
    if s.similar is not None and not s.waiting:
        count = many(s.similar.dispatcher.pending_count, "message")
        text = (
            f"it is empty, and {s.similar.destination.physical_name} has {count} and no"
            " consumer (did you mean that queue?)"
        )
        yield text, None


@_cause("bridge", "No bridge", "start the remote broker, or correct its address, user or password")
def _bridge(s: Situation) -> Iterator[Evidence]:
    if s.consumers and (s.chosen is None or s.waiting):
        return
    for connector in s.tree.host.networks.connectors:
        for remote, reason in connector.missing_bridges:
            yield f"network connector {connector.name} has no bridge to {remote}: {reason}", None


def refusals(tree: ManagementContext) -> Iterator[Refusal]:
    """Iterate over what clients were recently refused for lack of a right."""
    broker: Broker = tree.host.broker
    while isinstance(broker, BrokerFilter):
        if isinstance(broker, AuthorizationBroker):
            now = _clock.now()
            yield from (each for each in broker.refusals if now - each.time <= _REMEMBERED)
        broker = broker.next


@_cause(
    "rights",
    "A right is missing",
    "give the user's group the right in broker.yaml (authorization), or correct the login",
)
def _rights(s: Situation) -> Iterator[Evidence]:
    if s.destination is None:
        return
    what, now = s.destination.destination.qualified_name, _clock.now()
    seen: dict[tuple[str, str], tuple[int, float]] = {}
    for each in refusals(s.tree):
        if each.what == what:
            count = seen.get((each.user, each.action), (0, 0.0))[0] + 1
            seen[each.user, each.action] = (count, now - each.time)
    for (user, action), (count, ago) in islice(seen.items(), MOST_CONSUMERS):
        times = "once" if count == 1 else f"{count} times"
        yield f"user {user} was refused to {action} it {times}, last {time_text(ago)} ago", None


def _fillers(s: Situation, size_of: Callable[[BaseDestination], int]) -> str:
    """Return who fills a resource: the three destinations with the most bytes."""
    sizes = [
        (size_of(entry.base), name.qualified_name)
        for name, entry in s.tree.destinations().items()
        if isinstance(entry.base, BaseDestination)
    ]
    most = sorted((each for each in sizes if each[0]), reverse=True)[:3]
    return ", ".join(f"{name} ({size:,} bytes)" for size, name in most) or "no destination"


def _store_size(destination: BaseDestination) -> int:
    return 0 if destination.store is None else destination.store.message_size


@_cause(
    "full",
    "Memory or store full",
    "consume or purge the messages of those that fill it, or raise the limit; senders wait"
    " until there is space",
)
def _full(s: Situation) -> Iterator[Evidence]:
    destination = s.destination
    if destination is None:
        return
    own, whole = destination.memory, s.tree.host.system_usage.memory
    if own.limit and own.used >= own.limit:
        yield f"its own memory is full: {own.used:,} of {own.limit:,} bytes are used", None
    if whole.limit and whole.used >= whole.limit:
        fillers = _fillers(s, lambda each: each.memory.used)
        text = f"the broker's memory is full: {whole.used:,} of {whole.limit:,} bytes are used"
        yield f"{text}, most of them by {fillers}", None
    mark = destination.policy.store_usage_high_water_mark
    for disk in (destination.store_usage, destination.temp_usage):
        full = disk.full(mark)
        if full is not None:
            fillers = _fillers(s, _store_size)
            yield f"{full.reason(mark)}; most of it is used by {fillers}", None


@_cause(
    "exclusive",
    "An exclusive consumer gets everything",
    "close it, or see why it does not acknowledge; the others only wait to replace it",
)
def _exclusive(s: Situation) -> Iterator[Evidence]:
    exclusive = None if s.queue is None else s.queue.dispatcher.ring.exclusive
    if exclusive is None or len(s.consumers) < 2:
        return
    owner = exclusive.subscription
    if (s.chosen is not None and s.chosen is not owner) or (s.chosen is None and owner.is_full()):
        others = len(s.consumers) - 1
        text = (
            f"{name_of(owner)} is exclusive and gets all messages"
            f" ({owner.in_flight:,} in flight); {many(others, 'other consumer', 'get')} none"
        )
        yield text, owner


@_cause(
    "group",
    "Message groups belong to another consumer",
    "see why their consumer does not acknowledge, or release the groups with"
    " removeAllMessageGroups of the queue",
)
def _group(s: Situation) -> Iterator[Evidence]:
    if s.queue is None or not any(each.group_id for each in s.sample):
        return
    owners = s.queue.dispatcher.groups.groups.owners()
    held: dict[Subscription, list[str]] = {}
    for reference in s.sample:
        owner = owners.get(reference.group_id or "")
        is_other = owner is not s.chosen if s.chosen is not None else owner and owner.is_full()
        if owner is not None and is_other:
            held.setdefault(owner, []).append(reference.group_id or "")
    for owner, groups in islice(held.items(), MOST_CONSUMERS):
        text = (
            f"{many(len(groups), 'waiting message')} of message group {groups[0][:60]!r}"
            f"{' and others' if len(set(groups)) > 1 else ''} belong to {name_of(owner)},"
            f" which has {owner.in_flight:,} in flight"
        )
        yield text, owner


def counter_example(selector: Selector, reference: MessageReference) -> str:
    """Return the values for which a selector does not match a message: `carrier = 'dhl'`.

    They are those that it reads until it is decided, as they were read, at most three.
    """
    values: dict[str, object] = {}

    def lookup(name: str) -> object:
        return values.setdefault(name, reference.lookup(name))

    try:
        selector.evaluate(lookup)
    except JMSException as error:
        return f"properties on which it fails ({type(error).__name__})"
    shown = [
        f"no {name}" if value is None else f"{name} = {_short(value)}"
        for name, value in islice(values.items(), 3)
    ]
    return " and ".join(shown) or "any values: it never matches"


def _short(value: object) -> str:
    text = repr(str(value)[:60])
    return text if isinstance(value, str) else text[1:-1]


_REFUSED: Final = {
    "target": "they are addressed to another consumer",
    "no_local": "they come from its own connection (no_local)",
    "policy": "the message policy of its login keeps them from it",
    "bridge": "its bridge does not forward them (they come from there, or may go no further)",
}


@_cause(
    "selector",
    "No consumer wants the messages",
    "correct the selector or the messages' properties, or add a consumer that wants them",
)
def _selector(s: Situation) -> Iterator[Evidence]:
    if not s.examined or (s.chosen is None and not s.unwanted):
        return
    first = s.sample[0]
    named: set[object] = set()
    for each in s.asked:
        wish = wish_of(each)
        if not isinstance(each, PrefetchSubscription) or wish in named:
            continue
        named.add(wish)
        if s.first_wanted.get(each) is not None:
            continue
        reason = each.refusal_of(first)
        looked = f"none of the {s.examined:,} waiting messages looked at matches"
        if s.examined == 1:
            looked = "the waiting message does not match"
        text = f"{name_of(each)} does not want the waiting messages: {_REFUSED.get(reason)}"
        if reason == "selector" and each.selector is not None:
            text = (
                f"{name_of(each)} wants {(each.info.selector or '')[:_QUOTED]}; {looked}:"
                f" {'the first' if s.message is None else 'it'} has"
                f" {counter_example(each.selector, first)}"
            )
        yield text, each


@_cause(
    "page",
    "Wanted messages behind unwanted ones",
    "raise max_page_size of the queue's policy, or give these messages a queue of their own",
)
def _page(s: Situation) -> Iterator[Evidence]:
    if s.queue is None or not s.queue.dispatcher.is_page_full:
        return
    page = s.queue.dispatcher.offered_count
    for each in s.asked:
        index = s.first_wanted.get(each)
        if index is not None and index >= page and not each.is_full():
            text = (
                f"{name_of(each)} wants waiting message number {index + 1:,}, but the first"
                f" {page:,}, which no consumer with space wants, fill the page (max_page_size)"
            )
            yield text, each


@_cause(
    "in_flight",
    "With a consumer",
    "see what its consumer does; closing it makes the message available again",
    is_serious=False,
)
def _in_flight(s: Situation) -> Iterator[Evidence]:
    message = s.message
    if message is None:
        return
    if message.owner is not None:
        again = message.redelivery_counter
        yield (
            f"it was dispatched to {name_of(message.owner)} {time_text(age_of(message))} ago and is"
            " not acknowledged"
            + (f"; {many(again, 'delivery').replace('ys', 'ies')} failed before" if again else ""),
            message.owner,
        )
    elif message.acked:
        yield "a transaction that is still open has acknowledged it", None
    elif message.is_expired():
        yield "its time to live has passed: it is removed when it is offered", None


@_cause(
    "unacknowledged",
    "A consumer does not acknowledge",
    "call connection.start(); see where its application is stuck, and that it acknowledges or"
    " commits; closing it returns its messages to the queue",
)
def _unacknowledged_messages(s: Situation) -> Iterator[Evidence]:
    for each in s.asked:
        since = unacknowledged_for(each)
        if since is None or (since < STALLED and not _has_acknowledged_nothing(each)):
            continue
        if s.chosen is None and s.message is None and not (each.is_full() or since >= STALLED):
            continue
        if s.message is not None and s.message.owner is not each:
            continue
        count = f"{name_of(each)} has {each.in_flight:,} in flight"
        if _has_acknowledged_nothing(each):
            text = (
                f"{count} and has acknowledged nothing since it was created, for"
                f" {time_text(since)}: its connection was never started, or its"
                " application does not acknowledge"
            )
            yield text, each
        else:
            text = (
                f"{count}; the last was dispatched {time_text(since)} ago, and it has made room"
                " for no other since"
            )
            yield text, each


def _has_acknowledged_nothing(each: Subscription) -> bool:
    extension = each.prefetch_extension if isinstance(each, PrefetchSubscription) else 0
    return each.dequeue_count == 0 and not extension


@_cause("no_pull", "A consumer asks for nothing", "see whether its application still receives")
def _no_pull(s: Situation) -> Iterator[Evidence]:
    for each in s.asked:
        if each.prefetch_size == 0 and each.is_full() and s.waiting and not each.in_flight:
            yield f"{name_of(each)} has a prefetch of 0 and asks for no message now", each


@_cause(
    "prefetch",
    "Another consumer's prefetch holds the messages",
    "lower its prefetch (consumer.prefetchSize, or prefetch of the listener), so that others"
    " get a share",
)
def _prefetch(s: Situation) -> Iterator[Evidence]:
    """Find consumers whose prefetch holds everything while others have nothing to do."""
    if s.waiting or s.message is not None:
        return
    idle = [each for each in s.consumers if not each.in_flight]
    if (s.chosen is not None and s.chosen not in idle) or not idle:
        return
    for each in islice((c for c in s.consumers if c.in_flight), MOST_CONSUMERS):
        text = (
            f"no message waits: {name_of(each)} holds {each.in_flight:,} in its prefetch of"
            f" {each.prefetch_size:,}"
        )
        yield text, each


@_cause(
    "busy",
    "The consumers are busy",
    "it is a matter of speed: add consumers, or make their work faster",
    is_serious=False,
)
def _busy(s: Situation) -> Iterator[Evidence]:
    for each in s.asked:
        is_full = each.in_flight > 0 and each.is_full()
        if is_full and not is_stalled(each) and not _has_acknowledged_nothing(each):
            text = (
                f"{name_of(each)} works, and has as many in flight as its prefetch allows"
                f" ({each.prefetch_size:,})"
            )
            yield text, each


def _at_work(s: Situation) -> Iterator[Evidence]:
    """Find who has what is in flight, for a diagnosis that has found nothing else."""
    if s.message is not None:
        return
    consumers = s.consumers if s.chosen is None else [s.chosen]
    holders = list(islice((each for each in consumers if each.in_flight), MOST_CONSUMERS))
    for each in holders:
        in_flight = each.dispatched.values() if isinstance(each, PrefetchSubscription) else ()
        age = max(map(age_of, islice(in_flight, 1)), default=0.0)
        since = f"{'' if each.in_flight == 1 else 'the oldest '}dispatched {time_text(age)} ago, "
        yield (
            f"{_in_flight_text(each.in_flight)} at {name_of(each)}, {since if age else ''}{_YET}",
            each,
        )
    if not holders and s.chosen is None and s.destination is not None:
        count = s.destination.statistics.inflight
        if count > 0:
            yield f"{_in_flight_text(count)}, {_YET}", None


_YET: Final = "and not acknowledged yet"


def _in_flight_text(count: int) -> str:
    return f"{many(count, 'message', 'are')} in flight"


_AT_WORK: Final = Cause(
    "in_flight",
    "With a consumer",
    f"nothing yet; if it stays so, it is named after {STALLED:g} s: see that the connection was"
    " started (connection.start()), and that the application acknowledges or commits",
    _at_work,
    is_serious=False,
)
"""What is told if no cause is found: messages in flight are not delivered yet."""


def findings_of(
    situation: Situation, left_out: Container[str] = frozenset()
) -> tuple[Finding, ...]:
    """Return what the table finds, without the causes that are left out."""
    found = [
        each
        for cause in CAUSES
        if cause.name not in left_out
        for each in _found_by(cause, situation)
    ]
    return tuple(found or _found_by(_AT_WORK, situation))


def _found_by(cause: Cause, situation: Situation) -> Iterator[Finding]:
    for text, consumer in cause.find(situation):
        who = "" if consumer is None else str(consumer.consumer_id or name_of(consumer))
        yield Finding(cause.name, cause.title, text, cause.hint, who, cause.is_serious)
