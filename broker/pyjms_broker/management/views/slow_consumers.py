"""Views of slow consumer strategies.

(ActiveMQ AbortSlowConsumerStrategyView, AbortSlowAckConsumerStrategyView; activemq-edges 7)
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pyjms.errors import InvalidDestinationException
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.conversion import BOOLEAN, LONG, STRING
from pyjms_broker.management.host import Managed
from pyjms_broker.management.model import Attribute, Operation, Parameter, ViewKind, view_kind
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.policy.slow_consumers import ObservedWatch
from pyjms_broker.region.slow_consumers import WatchedStrategy

__all__ = ["SLOW_ACK_CONSUMERS", "SLOW_CONSUMERS"]

_Strategy: TypeAlias = Managed[WatchedStrategy]

_OBJECT_NAME: Final = "javax.management.ObjectName"


def _setting(name: str, field: str, kind: str, description: str) -> Attribute[_Strategy]:
    return Attribute(name, kind, description, lambda s: getattr(s.it.strategy, field))


def _time(name: str, field: str, description: str) -> Attribute[_Strategy]:
    return Attribute(
        name, LONG, f"{description}, in ms.", lambda s: int(getattr(s.it.strategy, field) * 1000)
    )


def _rows(s: _Strategy) -> list[dict[str, object]]:
    watch = s.it.watch
    if not isinstance(watch, ObservedWatch):
        return []
    return [
        {
            "subscription": str(s.tree.names.consumer(subscription)),
            "slowCount": entry.count,
            "markCount": entry.checks,
        }
        for subscription, entry in watch.slow.items()
    ]


def _abort(s: _Strategy, name: str, *, with_connection: bool) -> None:
    wanted = ObjectName(name)
    slow_consumers = s.tree.region.slow_consumers
    slow_consumers.abort(_consumer(s, wanted), with_connection=with_connection)


def _consumer(s: _Strategy, wanted: ObjectName) -> Subscription:
    for each in s.tree.region.subscriptions.all():
        if each.consumer_id is not None and s.tree.names.consumer(each) == wanted:
            return each
    raise InvalidDestinationException(
        f"There is no consumer {wanted.text[:300]}", hint="list the attribute SlowConsumers"
    )


_ATTRIBUTES: Final[tuple[Attribute[_Strategy], ...]] = (
    _time("CheckPeriod", "check_period", "Time between checks"),
    _setting(
        "MaxSlowCount",
        "max_slow_count",
        LONG,
        "Number of times that a consumer may become slow before it is aborted; -1: no limit.",
    ),
    _time(
        "MaxSlowDuration",
        "max_slow_duration",
        "Time that a consumer may be slow before it is aborted (0: no limit)",
    ),
    Attribute(
        "SlowConsumers",
        "javax.management.openmbean.TabularData",
        "The slow consumers, with the number of times that each became slow, and of checks that "
        "found it slow.",
        _rows,
    ),
)
_OPERATIONS: Final[tuple[Operation[_Strategy], ...]] = tuple(
    Operation(
        name,
        "void",
        f"Close a {what}; the argument is the consumer's object name.",
        lambda s, consumer, with_connection=with_connection: _abort(
            s, consumer, with_connection=with_connection
        ),
        (Parameter("consumerToAbort", kind),),
    )
    for name, what, with_connection in (
        ("abortConsumer", "consumer", False),
        ("abortConnection", "consumer's connection", True),
    )
    for kind in (STRING, _OBJECT_NAME)
)

SLOW_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowConsumerStrategyView",
    "A strategy that aborts slow consumers.",
    _ATTRIBUTES,
    _OPERATIONS,
)
SLOW_ACK_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowAckConsumerStrategyView",
    "A strategy that aborts consumers that acknowledge too slowly.",
    [
        *_ATTRIBUTES,
        _time(
            "MaxTimeSinceLastAck",
            "max_time_since_last_ack",
            "Time without an acknowledgement before a consumer is aborted",
        ),
        _setting(
            "IgnoreIdleConsumers",
            "ignore_idle_consumers",
            BOOLEAN,
            "Whether consumers without messages in flight are never slow.",
        ),
        _setting(
            "IgnoreNetworkConsumers",
            "ignore_network_consumers",
            BOOLEAN,
            "Whether consumers of network bridges are never aborted.",
        ),
    ],
    _OPERATIONS,
)
