"""Subclasses of consumers for some options: without the option they add no cost per message."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.client.delivery.variants.limited import LimitedConsumer, inflated_limit
from pyjms.client.delivery.variants.measured import MeasuredConsumer
from pyjms.client.delivery.variants.turn_taking import TurnTakingConsumer
from pyjms.client.interfaces import ClientSession

__all__ = ["browser_kind", "consumer_kind"]

C = TypeVar("C", bound=ActiveMQMessageConsumer)


def consumer_kind(session: ClientSession, kind: type[C]) -> type[C]:
    """Return the class of a session's consumers: `kind` with the subclasses for its options."""
    added: list[type[ActiveMQMessageConsumer]] = []
    if session.stats is not None:
        added.append(MeasuredConsumer)
    if not session.connection.options.always_session_async:
        added.append(TurnTakingConsumer)
    kind = browser_kind(session, kind)
    return cast("type[C]", _with(kind, *added)) if added else kind


def browser_kind(session: ClientSession, kind: type[C]) -> type[C]:
    """Return the class of a session's browsers: `kind` with the subclasses for its options."""
    if inflated_limit(session.connection) is None:
        return kind
    return cast("type[C]", _with(kind, LimitedConsumer))


@cache
def _with(kind: type[Any], *added: type[Any]) -> type[Any]:
    name = "".join(each.__name__.removesuffix("Consumer") for each in added)
    return type(f"{name}{kind.__name__}", (*added, kind), {})
