"""Why is nothing delivered? The causes, as one table, for a queue, a consumer or a message.

The command `why`, the console's pages, its warnings and Jolokia's operations `why` all show the
findings of this module. A cause is found in the broker's state alone: nothing is recorded for it
while messages flow. Messages are looked at in slices, so that the loop is not held.

The broker sees neither whether a client's connection was started nor whether its application
receives: OpenWire tells neither. A consumer that has acknowledged nothing yet may be either.
(activemq-edges 7)
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Container, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms.selector import Selector
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.similar import similar_queue
from pyjms_broker.policy.slow_consumers import AbortSlowAckConsumerAttributes
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.subscription import PrefetchSubscription, QueueSubscription
from pyjms_broker.security.authorization import AuthorizationBroker, Refusal

MOST_EXAMINED: Final = 1000
"""The maximum number of waiting messages that are looked at."""
_MOST_READ: Final = 20_000
"""The maximum number of messages that are read to find the waiting ones."""
_LONGEST: Final = 1.0
"""The maximum time in seconds that selectors are evaluated for a diagnosis."""
_MOST_CONSUMERS: Final = 20
"""The maximum number of consumers of a queue that a finding is about."""
_REMEMBERED: Final = 3600.0
"""Seconds for which a refusal of a right is told."""
STALLED: Final = AbortSlowAckConsumerAttributes().max_time_since_last_ack
"""Seconds without an acknowledgement after which a consumer no longer counts as working."""
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


class Diagnosis(NamedTuple):
    """What was found about a queue, a consumer or a message."""

    subject: str
    """What it is about, as in `queue orders`."""
    state: str
    findings: tuple[Finding, ...]

    def as_item(self) -> dict[str, object]:
        """Return it for Jolokia."""
        keys = ("cause", "title", "text", "hint", "consumer", "serious")
        rows = [dict(zip(keys, each, strict=True)) for each in self.findings]
        return {"subject": self.subject, "state": self.state, "findings": rows}


class Situation:
    """What the causes look at: a queue or a subscription of a topic, and its waiting messages."""

    def __init__(self, tree: ManagementContext, destination: BaseDestination | None) -> None:
        self.tree = tree
        self.destination = destination
        self.queue = destination if isinstance(destination, Queue) else None
        self.chosen: Subscription | None = None
        """The consumer that was asked for; None: a queue or a message."""
        self.message: MessageReference | None = None
        """The message that was asked for."""
        self.waiting = 0
        """The number of waiting messages."""
        self.sample: list[MessageReference] = []
        """The first waiting messages, of which the first `examined` were looked at."""
        self.examined = 0
        self.unwanted = 0
        """The number of messages looked at that no consumer wants."""
        self.first_wanted: dict[Subscription, int | None] = {}
        """For each consumer, the index of the first message that it wants."""
        self.similar: Queue | None = None
        """The queue of a similar name that has what this one lacks: consumers or messages."""

    @property
    def consumers(self) -> list[QueueSubscription]:
        """The consumers of the queue, without browsers."""
        if self.queue is None:
            return []
        return [
            c for c in self.queue.dispatcher.ring.candidates if isinstance(c, QueueSubscription)
        ]

    @property
    def asked(self) -> list[Subscription]:
        """The consumers that a finding may be about."""
        return (
            list(islice(self.consumers, _MOST_CONSUMERS)) if self.chosen is None else [self.chosen]
        )

    async def look(self, most: int) -> None:
        """Read the first waiting messages of the queue, and ask which consumers want them."""
        queue = self.queue
        if queue is None:
            self.waiting = 0 if self.chosen is None else self.chosen.pending_count
            return
        self.waiting = queue.dispatcher.pending_count
        slices = Slices()
        if self.message is not None:
            self.sample = [self.message] if self.message.owner is None else []
        elif self.waiting:
            for reference in islice(queue.messages(), _MOST_READ):
                if reference.owner is None and not (reference.dropped or reference.acked):
                    self.sample.append(reference)
                    if len(self.sample) >= most:
                        break
                await slices.after_item()
        consumers = self.consumers if self.chosen is None else [self.chosen]
        await self._compare(list(islice(consumers, 10 * _MOST_CONSUMERS)), slices)
        if self.chosen is not None or self.message is not None:
            return
        if self.waiting and not self.consumers:
            self.similar = await similar_queue(self.tree, queue, _has_consumer)
        elif not self.waiting and not queue.statistics.inflight:
            self.similar = await similar_queue(self.tree, queue, _is_left_alone)

    async def _compare(self, consumers: list[Subscription], slices: Slices) -> None:
        alike: dict[object, list[PrefetchSubscription]] = {}
        for each in consumers:
            if isinstance(each, PrefetchSubscription):
                alike.setdefault(_wish_of(each), []).append(each)
        found: dict[object, int] = {}
        end = _clock.stopwatch() + _LONGEST
        for index, reference in enumerate(self.sample):
            is_wanted = False
            for wish, (first, *_) in alike.items():
                if is_wanted and wish in found:
                    continue
                if not first.refusal_of(reference):
                    is_wanted = True
                    found.setdefault(wish, index)
                await slices.after_item()
            self.examined = index + 1
            self.unwanted += not is_wanted
            if _clock.stopwatch() > end:
                break
        for wish, members in alike.items():
            self.first_wanted.update(dict.fromkeys(members, found.get(wish)))


def _has_consumer(queue: Queue) -> bool:
    return any(isinstance(each, QueueSubscription) for each in queue.dispatcher.ring.candidates)


def _is_left_alone(queue: Queue) -> bool:
    """Return whether a queue has messages and no consumer."""
    return queue.dispatcher.pending_count > 0 and not _has_consumer(queue)


def _wish_of(subscription: Subscription) -> object:
    """Return what consumers have in common that want the same messages."""
    info = subscription.info
    own = info.consumer_id if info.no_local or info.additional_predicate is not None else None
    return info.selector or "", own, id(subscription.context.message_policy)


Evidence: TypeAlias = tuple[str, Subscription | None]
"""The text of a finding, and the consumer that it is about."""


class Cause(NamedTuple):
    """A cause: how it is called, what helps, and the function that finds it."""

    name: str
    title: str
    hint: str
    find: Callable[[Situation], Iterator[Evidence]]
    is_serious: bool = True


def _many(count: int, word: str, verb: str = "") -> str:
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


def name_of(subscription: Subscription) -> str:
    """Return the name of a consumer for a finding, with its client."""
    if isinstance(subscription, DurableTopicSubscription):
        key = subscription.key
        return f"durable subscription {key.subscription_name} of client {key.client_id}"
    client = subscription.context.client_id or "without an id"
    return f"consumer {subscription.consumer_id} of client {client}"


def _age(reference: MessageReference) -> float:
    """Return for how many seconds a message has been dispatched; 0: unknown."""
    out = 0 if reference.cached is None else reference.cached.broker_out_time
    return max(0.0, (_clock.time_ms() - out) / 1000) if out else 0.0


def unacknowledged_for(subscription: Subscription) -> float | None:
    """Return for how many seconds a consumer has acknowledged nothing; None: it works, or unknown.

    No time is kept of each acknowledgement. A window that is full is filled again by each one, so
    that the newest message in it is about as old as the last one. Of a window with space, only
    that nothing was ever acknowledged is known.
    """
    if not subscription.in_flight:
        return None
    since = _clock.now() - subscription.last_ack_time
    if not isinstance(subscription, PrefetchSubscription):
        return since if subscription.dequeue_count == 0 else None
    if subscription.times_acks:
        return since
    in_flight = subscription.dispatched.values()
    if subscription.dequeue_count == 0 and not subscription.prefetch_extension:
        return min(since, _age(next(iter(in_flight))))
    if len(in_flight) - subscription.prefetch_extension >= subscription.prefetch_size > 0:
        return min(since, _age(next(reversed(in_flight))))
    return None


def is_stalled(subscription: Subscription) -> bool:
    """Return whether a consumer has messages and has acknowledged none for `STALLED` seconds."""
    since = unacknowledged_for(subscription)
    return since is not None and since >= STALLED


def is_slow(subscription: Subscription) -> bool:
    """Return whether messages wait for a consumer that takes none; one that works is not slow."""
    if isinstance(subscription, PrefetchSubscription) and not is_stalled(subscription):
        return False
    return subscription.is_slow


# the causes


def _paused_queue(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.dispatcher.is_paused:
        yield f"{_many(s.waiting, 'message', 'wait')}, and nothing is dispatched", None


def _delayed_dispatch(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.dispatcher.is_delayed:
        policy = s.queue.policy
        yield (
            (
                f"it has {_many(len(s.consumers), 'consumer')}, and its policy waits for"
                f" {policy.consumers_before_dispatch_starts} consumers or"
                f" {time_text(policy.time_before_dispatch_starts or 1)}"
            ),
            None,
        )


def _leased_queue(s: Situation) -> Iterator[Evidence]:
    if s.queue is not None and s.queue.reader is not None and s.queue.reader.is_leased:
        yield "a range reader (Spark) has leased the queue, and removes what it has read", None


def _no_consumer(s: Situation) -> Iterator[Evidence]:
    text = f"it has {_many(s.waiting, 'message')} and no consumer"
    if s.queue is not None and s.waiting and not s.consumers:
        if s.similar is not None:
            count = _many(s.similar.statistics.consumers, "consumer")
            text += f" (did you mean {s.similar.destination.physical_name}, which has {count}?)"
        yield text, None
    if s.waiting and _is_offline(s.chosen):
        yield text, s.chosen


def _offline(s: Situation) -> Iterator[Evidence]:
    if not s.waiting and _is_offline(s.chosen):
        yield "it has no message and no consumer", s.chosen


def _is_offline(subscription: Subscription | None) -> bool:
    return isinstance(subscription, DurableTopicSubscription) and not subscription.is_active


def _similar_name(s: Situation) -> Iterator[Evidence]:
    if s.similar is not None and not s.waiting:
        count = _many(s.similar.dispatcher.pending_count, "message")
        yield (
            (
                f"it is empty, and {s.similar.destination.physical_name} has {count} and no"
                " consumer (did you mean that queue?)"
            ),
            None,
        )


def _bridge(s: Situation) -> Iterator[Evidence]:
    if s.consumers and (s.chosen is None or s.waiting):
        return
    for connector in s.tree.host.networks.connectors:
        for remote, reason in connector.missing_bridges:
            yield f"network connector {connector.name} has no bridge to {remote}: {reason}", None


def _refusals(tree: ManagementContext) -> Iterator[Refusal]:
    broker: Broker = tree.host.broker
    while isinstance(broker, BrokerFilter):
        if isinstance(broker, AuthorizationBroker):
            now = _clock.now()
            yield from (each for each in broker.refusals if now - each.time <= _REMEMBERED)
        broker = broker.next


def _rights(s: Situation) -> Iterator[Evidence]:
    if s.destination is None:
        return
    what, now = s.destination.destination.qualified_name, _clock.now()
    seen: dict[tuple[str, str], tuple[int, float]] = {}
    for each in _refusals(s.tree):
        if each.what == what:
            count = seen.get((each.user, each.action), (0, 0.0))[0] + 1
            seen[each.user, each.action] = (count, now - each.time)
    for (user, action), (count, ago) in islice(seen.items(), _MOST_CONSUMERS):
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


def _exclusive(s: Situation) -> Iterator[Evidence]:
    exclusive = None if s.queue is None else s.queue.dispatcher.ring.exclusive
    if exclusive is None or len(s.consumers) < 2:
        return
    owner = exclusive.subscription
    if (s.chosen is not None and s.chosen is not owner) or (s.chosen is None and owner.is_full()):
        others = len(s.consumers) - 1
        yield (
            (
                f"{name_of(owner)} is exclusive and gets all messages"
                f" ({owner.in_flight:,} in flight); {_many(others, 'other consumer', 'get')} none"
            ),
            owner,
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
    for owner, groups in islice(held.items(), _MOST_CONSUMERS):
        yield (
            (
                f"{_many(len(groups), 'waiting message')} of message group {groups[0][:60]!r}"
                f"{' and others' if len(set(groups)) > 1 else ''} belong to {name_of(owner)},"
                f" which has {owner.in_flight:,} in flight"
            ),
            owner,
        )


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


def _selector(s: Situation) -> Iterator[Evidence]:
    if not s.examined or (s.chosen is None and not s.unwanted):
        return
    first = s.sample[0]
    named: set[object] = set()
    for each in s.asked:
        wish = _wish_of(each)
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


def _page(s: Situation) -> Iterator[Evidence]:
    if s.queue is None or not s.queue.dispatcher.is_page_full:
        return
    page = s.queue.dispatcher.offered_count
    for each in s.asked:
        index = s.first_wanted.get(each)
        if index is not None and index >= page and not each.is_full():
            yield (
                (
                    f"{name_of(each)} wants waiting message number {index + 1:,}, but the first"
                    f" {page:,}, which no consumer with space wants, fill the page (max_page_size)"
                ),
                each,
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
            yield (
                (
                    f"{count} and has acknowledged nothing since it was created, for"
                    f" {time_text(since)}: its connection was never started, or its"
                    " application does not acknowledge"
                ),
                each,
            )
        else:
            yield (
                (
                    f"{count}; the last was dispatched {time_text(since)} ago, and it has made room"
                    " for no other since"
                ),
                each,
            )


def _has_acknowledged_nothing(each: Subscription) -> bool:
    extension = each.prefetch_extension if isinstance(each, PrefetchSubscription) else 0
    return each.dequeue_count == 0 and not extension


def _no_pull(s: Situation) -> Iterator[Evidence]:
    for each in s.asked:
        if each.prefetch_size == 0 and each.is_full() and s.waiting and not each.in_flight:
            yield f"{name_of(each)} has a prefetch of 0 and asks for no message now", each


def _in_flight(s: Situation) -> Iterator[Evidence]:
    message = s.message
    if message is None:
        return
    if message.owner is not None:
        again = message.redelivery_counter
        yield (
            f"it was dispatched to {name_of(message.owner)} {time_text(_age(message))} ago and is"
            " not acknowledged"
            + (f"; {_many(again, 'delivery').replace('ys', 'ies')} failed before" if again else ""),
            message.owner,
        )
    elif message.acked:
        yield "a transaction that is still open has acknowledged it", None
    elif message.is_expired():
        yield "its time to live has passed: it is removed when it is offered", None


def _at_work(s: Situation) -> Iterator[Evidence]:
    """Find who has what is in flight, for a diagnosis that has found nothing else."""
    if s.message is not None:
        return
    consumers = s.consumers if s.chosen is None else [s.chosen]
    holders = list(islice((each for each in consumers if each.in_flight), _MOST_CONSUMERS))
    for each in holders:
        in_flight = each.dispatched.values() if isinstance(each, PrefetchSubscription) else ()
        age = max(map(_age, islice(in_flight, 1)), default=0.0)
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
    return f"{_many(count, 'message', 'are')} in flight"


def _prefetch(s: Situation) -> Iterator[Evidence]:
    """Find consumers whose prefetch holds everything while others have nothing to do."""
    if s.waiting or s.message is not None:
        return
    idle = [each for each in s.consumers if not each.in_flight]
    if (s.chosen is not None and s.chosen not in idle) or not idle:
        return
    for each in islice((c for c in s.consumers if c.in_flight), _MOST_CONSUMERS):
        yield (
            (
                f"no message waits: {name_of(each)} holds {each.in_flight:,} in its prefetch of"
                f" {each.prefetch_size:,}"
            ),
            each,
        )


def _busy(s: Situation) -> Iterator[Evidence]:
    for each in s.asked:
        is_full = each.in_flight > 0 and each.is_full()
        if is_full and not is_stalled(each) and not _has_acknowledged_nothing(each):
            yield (
                (
                    f"{name_of(each)} works, and has as many in flight as its prefetch allows"
                    f" ({each.prefetch_size:,})"
                ),
                each,
            )


_ADD = "it is a matter of speed: add consumers, or make their work faster"
CAUSES: Final[tuple[Cause, ...]] = (
    Cause("paused", "Paused queue with messages", "resume it", _paused_queue),
    Cause(
        "start",
        "Dispatch has not begun",
        "start more consumers, or change consumers_before_dispatch_starts of its policy",
        _delayed_dispatch,
    ),
    Cause(
        "lease", "Leased to a range reader", "stop the reader, or wait for its end", _leased_queue
    ),
    Cause(
        "no_consumer",
        "Nobody listens",
        "start a consumer, or move or purge the messages",
        _no_consumer,
    ),
    Cause("no_consumer", "Nobody listens", "start its consumer", _offline, is_serious=False),
    Cause(
        "similar_name",
        "A queue of a similar name has messages",
        "compare the names of the queue in the sender and in the consumer",
        _similar_name,
        is_serious=False,
    ),
    Cause(
        "bridge",
        "No bridge",
        "start the remote broker, or correct its address, user or password",
        _bridge,
    ),
    Cause(
        "rights",
        "A right is missing",
        "give the user's group the right in broker.yaml (authorization), or correct the login",
        _rights,
    ),
    Cause(
        "full",
        "Memory or store full",
        "consume or purge the messages of those that fill it, or raise the limit; senders wait"
        " until there is space",
        _full,
    ),
    Cause(
        "exclusive",
        "An exclusive consumer gets everything",
        "close it, or see why it does not acknowledge; the others only wait to replace it",
        _exclusive,
    ),
    Cause(
        "group",
        "Message groups belong to another consumer",
        "see why their consumer does not acknowledge, or release the groups with"
        " removeAllMessageGroups of the queue",
        _group,
    ),
    Cause(
        "selector",
        "No consumer wants the messages",
        "correct the selector or the messages' properties, or add a consumer that wants them",
        _selector,
    ),
    Cause(
        "page",
        "Wanted messages behind unwanted ones",
        "raise max_page_size of the queue's policy, or give these messages a queue of their own",
        _page,
    ),
    Cause(
        "in_flight",
        "With a consumer",
        "see what its consumer does; closing it makes the message available again",
        _in_flight,
        is_serious=False,
    ),
    Cause(
        "unacknowledged",
        "A consumer does not acknowledge",
        "call connection.start(); see where its application is stuck, and that it acknowledges or"
        " commits; closing it returns its messages to the queue",
        _unacknowledged_messages,
    ),
    Cause(
        "no_pull",
        "A consumer asks for nothing",
        "see whether its application still receives",
        _no_pull,
    ),
    Cause(
        "prefetch",
        "Another consumer's prefetch holds the messages",
        "lower its prefetch (consumer.prefetchSize, or prefetch of the listener), so that others"
        " get a share",
        _prefetch,
    ),
    Cause("busy", "The consumers are busy", _ADD, _busy, is_serious=False),
)
"""All causes, in the order in which they are told: what stops everything comes first."""


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


async def diagnose(tree: ManagementContext, name: str, most: int = MOST_EXAMINED) -> Diagnosis:
    """Return why nothing is delivered from a queue, to a consumer, or of a message. Cancellable.

    Args:
        tree: the context of the views.
        name: of a queue or topic, `CLIENT:SUBSCRIPTION` of a durable subscription, or the id of a
            consumer or message.
        most: the maximum number of waiting messages to look at.

    Raises:
        InvalidDestinationException: there is nothing of that name.
    """
    kind, _, bare = name.rpartition("://")
    for destination, entry in tree.destinations().items():
        is_named = destination.physical_name == bare and destination.PREFIX.startswith(kind)
        if is_named and isinstance(entry.base, BaseDestination):
            return await diagnose_destination(tree, entry.base, most)
    slices = Slices()
    for subscription in tree.region.subscriptions.all():
        if name in _names_of(subscription):
            return await diagnose_consumer(tree, subscription, most)
        await slices.after_item()
    async for queue, reference in _find_message(tree, name, slices):
        return await diagnose_message(tree, queue, reference)
    raise InvalidDestinationException(
        f"There is no queue, consumer or message {name[:_QUOTED]!r}",
        hint="a message may have been consumed or have expired meanwhile; `pyjms broker dstat` and"
        " `query` list queues and consumers",
    )


def _names_of(subscription: Subscription) -> tuple[str, ...]:
    if isinstance(subscription, DurableTopicSubscription):
        key = subscription.key
        return f"{key.client_id}:{key.subscription_name}", str(subscription.consumer_id)
    return (str(subscription.consumer_id),)


_ID: Final = re.compile(r"(ID:.{1,200}):(-?\d{1,19}):(-?\d{1,19}):(\d{1,19})", re.ASCII)


def _message_id(text: str) -> MessageId:
    parts = _ID.fullmatch(text)
    if parts is None:
        return MessageId(text)
    producer = ProducerId(parts[1], int(parts[3]), int(parts[2]))
    return MessageId(None, producer, int(parts[4]))


async def _find_message(
    tree: ManagementContext, text: str, slices: Slices
) -> AsyncIterator[tuple[Queue, MessageReference]]:
    wanted = _message_id(text)
    for entry in tuple(tree.destinations().values()):
        queue = entry.base
        if not isinstance(queue, Queue) or queue.disposed:
            continue
        for reference in tuple(queue.references):
            if str(reference.message_id) == text:
                yield queue, reference
            await slices.after_item()
        found = queue.contents.find_paged_out(wanted) if queue.contents.paged_out_count else None
        if found is not None:
            yield queue, found


async def diagnose_destination(
    tree: ManagementContext, destination: BaseDestination, most: int = MOST_EXAMINED
) -> Diagnosis:
    """Return why nothing is delivered from a queue or topic. Cancellable."""
    situation = Situation(tree, destination)
    await situation.look(most)
    word = "topic" if destination.destination.is_topic else "queue"
    subject = f"{word} {destination.destination.physical_name}"
    if situation.queue is None:
        state = _many(destination.statistics.consumers, "consumer")
    else:
        state = _state(situation.queue)
    return Diagnosis(subject, state, findings_of(situation))


def _state(queue: Queue) -> str:
    in_flight, arrival = queue.statistics.inflight, queue.oldest_arrival()
    age = f", the oldest for {time_text((_clock.time_ms() - arrival) / 1000)}" if arrival else ""
    return (
        f"{_many(queue.dispatcher.pending_count, 'message', 'wait')}, {in_flight:,}"
        f" {'is' if in_flight == 1 else 'are'} in flight{age};"
        f" {_many(queue.statistics.consumers, 'consumer')}"
    )


async def diagnose_consumer(
    tree: ManagementContext, subscription: Subscription, most: int = MOST_EXAMINED
) -> Diagnosis:
    """Return why a consumer gets nothing. Cancellable."""
    bases = [each.base for each in subscription.destinations]
    found = [each for each in bases if isinstance(each, BaseDestination)]
    findings: dict[Finding, None] = {}
    state = f"{subscription.in_flight:,} in flight, {subscription.dequeue_count:,} acknowledged"
    looked_at: list[BaseDestination | None] = [*found[:_MOST_CONSUMERS]]
    for destination in looked_at or [None]:
        situation = Situation(tree, destination)
        situation.chosen = subscription
        await situation.look(most)
        findings.update(dict.fromkeys(findings_of(situation)))
        if destination is not None:
            state += f"; {destination.destination.physical_name}: "
            state += _many(situation.waiting, "message", "wait")
    return Diagnosis(name_of(subscription), state, tuple(findings))


async def diagnose_message(
    tree: ManagementContext, queue: Queue, reference: MessageReference
) -> Diagnosis:
    """Return why a message is not delivered. Cancellable."""
    situation = Situation(tree, queue)
    situation.message = reference
    await situation.look(1)
    subject = f"message {reference.message_id} in queue {queue.destination.physical_name}"
    return Diagnosis(subject, _state(queue), findings_of(situation))


_FEW: Final = 100
"""The number of waiting messages that are looked at for a warning."""
_MOST_WARNED: Final = 50
"""The maximum number of queues that are looked at for warnings."""


def _may_be_stuck(queue: Queue) -> bool:
    """Return quickly whether a diagnosis of a queue whose messages wait is worth its time."""
    dispatcher = queue.dispatcher
    if dispatcher.is_paused:
        return False
    if dispatcher.is_delayed or dispatcher.ring.ready:
        return True
    return any(is_stalled(each) for each in islice(dispatcher.ring.candidates, _MOST_CONSUMERS))


_SEPARATE: Final = frozenset({"paused", "no_consumer", "bridge", "full"})
"""Causes that are warnings of their own, found without looking at messages."""


async def warnings(tree: ManagementContext) -> tuple[list[tuple[Destination, Finding]], int]:
    """Return what keeps messages of queues with consumers waiting. Cancellable.

    The number is of the queues that were not looked at, because others came first.
    """
    found: list[tuple[Destination, Finding]] = []
    slices = Slices()
    looked = left = 0
    refused = {each.what for each in _refusals(tree)}
    for destination, entry in tree.destinations().items():
        queue = entry.base
        if not isinstance(queue, Queue) or not queue.dispatcher.pending_count:
            continue
        if _may_be_stuck(queue) or destination.qualified_name in refused:
            if looked >= _MOST_WARNED:
                left += 1
                continue
            looked += 1
            situation = Situation(tree, queue)
            await situation.look(_FEW)
            findings = findings_of(situation, _SEPARATE)
            found += [(destination, each) for each in findings if each.is_serious]
        await slices.after_item()
    return found, left
