"""The batches and retry policies of listeners: what is wanted, and what could not work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyjms.annotation.idempotent import idempotent_mark
from pyjms.annotation.jms_listener import JmsListenerMark
from pyjms.annotation.send_to import send_to_destination
from pyjms.container.handler_problems import handler_name
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException
from pyjms.jms.api import Session
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.listener.batches.plan import BatchHandlerAdapter, BatchPlan
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.handler.adapter import HandlerAdapter
from pyjms.listener.handler.arguments import CallPlan, SessionTypes
from pyjms.listener.idempotency.calls import IdempotentAdapter, IdempotentPlan
from pyjms.settings import PyjmsSettings
from pyjms.settings.listeners import ListenerOverride
from pyjms.support.retry import RetryPolicy
from pyjms.sync.session import Session as BlockingSession

__all__ = [
    "adapter_type",
    "check_retry",
    "make_plan",
    "refuse_replies",
    "session_types",
    "wanted_batch_size",
    "wanted_retry",
]

_CONSUMED_ON_RECEIPT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)


def wanted_batch_size(mark: JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the size of a listener's batches, from YAML or its mark; None: neither has one."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.batch_size


def make_plan(handler: Callable[..., Any], batch_size: int | None, **options: Any) -> CallPlan:
    """Return the plan of a handler's calls: for messages, for new ones only, or for batches.

    Raises:
        ConfigurationException: the handler cannot be called so.
    """
    mark = idempotent_mark(handler)
    if batch_size is not None:
        if mark is not None:
            raise ConfigurationException(
                f"Handler {handler_name(handler)}: a batch has no key, so that its @idempotent has "
                "no effect",
                hint="remove it, and record the messages with pyjms.outbox.record",
            )
        return BatchPlan(handler, **options)
    return (
        CallPlan(handler, **options)
        if mark is None
        else IdempotentPlan(handler, mark=mark, **options)
    )


def adapter_type(plan: CallPlan) -> type[HandlerAdapter]:
    """Return what calls the handler of a plan."""
    if isinstance(plan, BatchPlan):
        return BatchHandlerAdapter
    return IdempotentAdapter if isinstance(plan, IdempotentPlan) else HandlerAdapter


def refuse_replies(handler: Callable[..., Any], batch_size: int | None) -> None:
    """Refuse `@send_to` on a batch handler.

    Raises:
        ConfigurationException: it has one.
    """
    if batch_size is not None and send_to_destination(handler) is not None:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: a batch handler has no reply, so that its @send_to "
            "has no effect",
            hint="remove it, and send with a template",
        )


def wanted_retry(
    mark: JmsListenerMark, own: ListenerOverride | None, settings: PyjmsSettings
) -> RetryPolicy | None:
    """Return a listener's policy, with the changes of `listeners.<id>.retry`; None: it has none.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers do not go together.
    """
    policy = mark.retry
    if own is not None and own.retry is not None:
        policy = (policy or RetryPolicy()).merged(own.retry.changes())
    elif own is not None and own.redelivery is not None and policy is not None:
        raise ConfigurationException(
            "listeners.<id>.redelivery would change what the decorator's retry says",
            hint="write listeners.<id>.retry instead",
        )
    if policy is None:
        return None
    if policy.dead_letter is not None:
        name = settings.resolve_placeholders(policy.dead_letter)
        named_kind(name)
        parse_destination(name)
        policy = policy.merged({"dead_letter": name})
    return policy if settings.has_retry_delays else policy.without_delays()


def check_retry(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a retry policy that has no effect in the containers of a factory.

    Raises:
        ConfigurationException: messages are consumed whatever their handler does, or the dead
            letters would come back to the listener.
    """
    policy = endpoint.retry
    options = getattr(factory, "options", None)
    if policy is None or not isinstance(options, dict):
        return
    given = {**options, **endpoint.properties}
    is_transacted = given.get("session_transacted") or given.get("transaction_manager")
    mode = given.get("session_acknowledge_mode", AcknowledgeMode.AUTO)
    if not is_transacted and mode in (*_CONSUMED_ON_RECEIPT, "AUTO_ACKNOWLEDGE"):
        raise ConfigurationException(
            "retry: a message counts as consumed whatever its handler does",
            hint="let the listener's session be transacted, or its acknowledge_mode be client",
        )
    if policy.dead_letter is not None and _same(policy.dead_letter, endpoint.destination):
        raise ConfigurationException(
            f"retry: dead_letter {policy.dead_letter!r} is the listener's own destination",
            hint="name another one, or leave it out",
        )


def _same(one: str, other: str) -> bool:
    return parse_destination(one) == parse_destination(other)


def session_types(handler: Callable[..., Any]) -> SessionTypes:
    """Return the session types of a handler: a coroutine cannot use the blocking one."""
    if inspect.iscoroutinefunction(handler):
        return {Session: lambda session: session}
    return {Session: lambda session: session, BlockingSession: BlockingSession.of}
