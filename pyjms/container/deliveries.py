"""The batches and retry policies of listeners, and checks for combinations that cannot work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pyjms._logger import get_logger
from pyjms.annotation.idempotent import idempotent_mark
from pyjms.annotation.jms_listener import JmsListenerMark
from pyjms.annotation.send_to import send_to_destination
from pyjms.container.handler_problems import handler_name
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.api import Session
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.handler.adapter import HandlerAdapter
from pyjms.listener.handler.arguments import CallPlan, SessionTypes
from pyjms.settings import PyjmsSettings
from pyjms.settings.listeners import ListenerOverride
from pyjms.support.retry import RetryPolicy

__all__ = [
    "adapter_type",
    "check_retry",
    "default_retry",
    "make_plan",
    "refuse_replies",
    "session_types",
    "wanted_batch_size",
    "wanted_retry",
]

logger: Final = get_logger(__name__)

_CONSUMED_ON_RECEIPT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)


def wanted_batch_size(mark: JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the batch size of a listener, from YAML or its mark; None: it is not set."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.batch_size


def make_plan(handler: Callable[..., Any], batch_size: int | None, **options: Any) -> CallPlan:
    """Return the call plan of a handler: plain, idempotent, or for batches.

    Raises:
        ConfigurationException: the handler cannot be called in this way.
    """
    mark = idempotent_mark(handler)
    if batch_size is not None:
        if mark is not None:
            raise ConfigurationException(
                f"Handler {handler_name(handler)}: a batch has no key, so @idempotent has "
                "no effect",
                hint="remove @idempotent, and record the messages with pyjms.outbox.record",
            )
        from pyjms.listener.batches.plan import BatchPlan  # noqa: PLC0415 - few have batches

        return BatchPlan(handler, **options)
    if mark is not None:
        from pyjms.listener.idempotency.calls import IdempotentPlan  # noqa: PLC0415 - few have it

        return IdempotentPlan(handler, mark=mark, **options)
    return CallPlan(handler, **options)


def adapter_type(plan: CallPlan) -> type[HandlerAdapter]:
    """Return the class of the adapter that calls the handler of a plan."""
    if type(plan) is CallPlan:
        return HandlerAdapter
    # the class of the plan has imported its module
    from pyjms.listener.batches.plan import BatchHandlerAdapter, BatchPlan  # noqa: PLC0415
    from pyjms.listener.idempotency.calls import IdempotentAdapter, IdempotentPlan  # noqa: PLC0415

    if isinstance(plan, BatchPlan):
        return BatchHandlerAdapter
    return IdempotentAdapter if isinstance(plan, IdempotentPlan) else HandlerAdapter


def refuse_replies(handler: Callable[..., Any], batch_size: int | None) -> None:
    """Refuse `@send_to` on a batch handler.

    Raises:
        ConfigurationException: the handler has a `@send_to`.
    """
    if batch_size is not None and send_to_destination(handler) is not None:
        raise ConfigurationException(
            f"Handler {handler_name(handler)}: a batch handler has no reply, so @send_to "
            "has no effect",
            hint="remove @send_to, and send with a template",
        )


def default_retry(settings: PyjmsSettings) -> RetryPolicy | None:
    """Return the policy of `jms.listener.retry`; None: there is none.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers contradict each other.
    """
    section = settings.jms.listener.retry
    return None if section is None else _resolved(RetryPolicy(**section.changes()), settings)


def wanted_retry(
    endpoint: JmsListenerEndpoint,
    factory: Any,
    own: ListenerOverride | None,
    settings: PyjmsSettings,
) -> RetryPolicy | None:
    """Return a listener's retry policy: its decorator's, or else the default of all listeners.

    The changes in `listeners.<id>.retry` are applied. None: the listener has no policy.

    Args:
        endpoint: the listener, whose `retry` is the decorator's.
        factory: its container factory.
        own: the settings `listeners.<id>`.
        settings: the settings of the application.

    Raises:
        ConfigurationException: an exception or the dead-letter destination is not known.
        ValueError: its numbers contradict each other.
    """
    policy = endpoint.retry
    redelivery = None if own is None else own.redelivery
    if redelivery is not None and policy is not None:
        raise ConfigurationException(
            "listeners.<id>.redelivery would conflict with the decorator's retry",
            hint="write listeners.<id>.retry instead",
        )
    if policy is None and redelivery is None:
        policy = _default_of(endpoint, factory, settings)
    if own is not None and own.retry is not None:
        policy = (policy or RetryPolicy()).merged(own.retry.changes())
    if policy is None:
        return None
    policy = _resolved(policy, settings)
    return policy if settings.has_retry_delays else policy.without_delays()


def _default_of(
    endpoint: JmsListenerEndpoint, factory: Any, settings: PyjmsSettings
) -> RetryPolicy | None:
    """Return the default policy without the attributes that have no effect on a listener."""
    try:
        policy = default_retry(settings)
    except (JMSException, ValueError) as error:  # the check of the settings reports it, once
        logger.debug("jms.listener.retry has no effect: %s", error)
        return None
    if policy is None or _consumes_on_receipt(endpoint, factory):
        return None
    if policy.dead_letter is not None and _same(policy.dead_letter, endpoint.destination):
        return replace(policy, dead_letter=None)
    return policy


def _resolved(policy: RetryPolicy, settings: PyjmsSettings) -> RetryPolicy:
    if policy.dead_letter is None:
        return policy
    name = settings.resolve_placeholders(policy.dead_letter)
    named_kind(name)
    parse_destination(name)
    return policy.merged({"dead_letter": name})


def check_retry(endpoint: JmsListenerEndpoint, factory: Any) -> None:
    """Refuse a retry policy that has no effect in the containers of a factory.

    Raises:
        ConfigurationException: messages are consumed even if the handler fails, or the dead
            letters would be sent to the listener itself.
    """
    policy = endpoint.retry
    if policy is None or not isinstance(getattr(factory, "options", None), dict):
        return
    if _consumes_on_receipt(endpoint, factory):
        raise ConfigurationException(
            "retry: messages count as consumed even if the handler fails",
            hint="make the listener's session transacted, or set its acknowledge_mode to client",
        )
    if policy.dead_letter is not None and _same(policy.dead_letter, endpoint.destination):
        raise ConfigurationException(
            f"retry: dead_letter {policy.dead_letter!r} is the listener's own destination",
            hint="set another destination, or omit dead_letter",
        )


def _consumes_on_receipt(endpoint: JmsListenerEndpoint, factory: Any) -> bool:
    """Return whether messages count as consumed even if the handler fails; False if unknown."""
    options = getattr(factory, "options", None)
    if not isinstance(options, dict):
        return False
    given = {**options, **endpoint.properties}
    is_transacted = given.get("session_transacted") or given.get("transaction_manager")
    mode = given.get("session_acknowledge_mode", AcknowledgeMode.AUTO)
    return not is_transacted and mode in (*_CONSUMED_ON_RECEIPT, "AUTO_ACKNOWLEDGE")


def _same(one: str, other: str) -> bool:
    return parse_destination(one) == parse_destination(other)


def session_types(handler: Callable[..., Any]) -> SessionTypes:
    """Return the session types of a handler: a coroutine cannot use the blocking session."""
    if inspect.iscoroutinefunction(handler):
        return {Session: lambda session: session}
    from pyjms.sync.session import Session as BlockingSession  # noqa: PLC0415 - not for coroutines

    return {Session: lambda session: session, BlockingSession: BlockingSession.of}
