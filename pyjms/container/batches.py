"""Which listeners have batches, and what calls their handlers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyjms.annotation.jms_listener import JmsListenerMark
from pyjms.annotation.send_to import send_to_destination
from pyjms.container.handler_problems import handler_name
from pyjms.errors import ConfigurationException
from pyjms.listener.batches.plan import BatchHandlerAdapter, BatchPlan
from pyjms.listener.handler.adapter import HandlerAdapter
from pyjms.listener.handler.arguments import CallPlan
from pyjms.settings import PyjmsSettings

__all__ = ["adapter_type", "plan_type", "refuse_replies", "wanted_batch_size"]


def wanted_batch_size(mark: JmsListenerMark, settings: PyjmsSettings) -> int | None:
    """Return the size of a listener's batches, from YAML or its mark; None: neither has one."""
    with suppress(ConfigurationException):  # reported with the mark's other texts
        own = settings.listeners.get(settings.resolve_placeholders(mark.id or ""))
        if own is not None and own.batch_size is not None:
            return own.batch_size
    return mark.batch_size


def plan_type(batch_size: int | None) -> type[CallPlan]:
    """Return what plans the calls of a handler, for messages or for batches."""
    return CallPlan if batch_size is None else BatchPlan


def adapter_type(batch_size: int | None) -> type[HandlerAdapter]:
    """Return what calls a handler, for messages or for batches."""
    return HandlerAdapter if batch_size is None else BatchHandlerAdapter


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
