"""The audit log: administrative actions with user, address and result.

The logger `pyjms_broker.audit` has one line per action: always for management changes and
operations, and for refusals because of a missing right or wrong password; with the plug-in `audit`
also for destinations and durable subscriptions that clients create and remove. It never contains
passwords, messages or arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from pyjms.errors import JMSSecurityException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime.logging import escape_control_characters, get_logger
from pyjms.wire.openwire.commands import RemoveSubscriptionInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination

logger = get_logger("pyjms_broker.audit")

_SHOWN: Final = 200
"""The maximum number of characters of a client's name."""
_actor: ContextVar[tuple[str, str]] = ContextVar("actor", default=("the program itself", "here"))


@contextmanager
def acting_as(user: str, address: str) -> Iterator[None]:
    """Attribute management actions in the block to a user at an address."""
    token = _actor.set((user, address))
    try:
        yield
    finally:
        _actor.reset(token)


def audit(
    user: str | None,
    address: str | None,
    act: str,
    result: str,
    *,
    level: int,
    client: Mapping[str, object] | None = None,
) -> None:
    """Log an action; `client` has further fields of JSON lines. Never blocks."""
    if logger.isEnabledFor(level):
        name = "null" if user is None else user[:_SHOWN]
        for special in ("\\", "'"):  # a name with a quote could forge a log line
            name = name.replace(special, f"\\{special}")
        text = escape_control_characters(act[:_SHOWN])
        fields = {
            **(client or {}),
            "user": escape_control_characters(name),
            "address": address,
            "act": text,
            "result": result,
        }
        logger.log(level, "'%s' from %s: %s: %s", name, address, text, result, extra=fields)


@contextmanager
def audit_action(act: str) -> Iterator[None]:
    """Log a management action and whether it failed."""
    user, address = _actor.get()
    try:
        yield
    except BaseException as error:
        audit(user, address, act, f"failed: {type(error).__name__}", level=logging.WARNING)
        raise
    audit(user, address, act, "done", level=logging.INFO)


def audit_client(
    context: ConnectionContext, act: str, result: str, level: int = logging.INFO
) -> None:
    """Log an action of a client."""
    user = context.user_name if context.security is None else context.security.user_name
    address = None if context.connection is None else context.connection.remote_address
    audit(user, address, act, result, level=level, client=context.log_fields)


@dataclass(frozen=True)
class AuditPlugin:
    """The audit log has what clients create and remove, too: logger `pyjms_broker.audit`."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that writes the audit log."""
        return AuditBroker(broker)


class AuditBroker(BrokerFilter):
    """Logs destinations and durable subscriptions that clients create and remove.

    Temporary destinations and advisory topics are not logged. Refusals are logged by the filter
    that refuses.
    """

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        if _is_unlogged(context, destination) or destination in self.next.destinations():
            return super().add_destination(context, destination, create_temporary)
        with _audit(context, f"create {destination.qualified_name}"):
            return super().add_destination(context, destination, create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if _is_unlogged(context, destination):
            super().remove_destination(context, destination, timeout)
            return
        with _audit(context, f"remove {destination.qualified_name}"):
            super().remove_destination(context, destination, timeout)

    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion:
        with _audit(
            context, f"remove durable subscription {info.subscription_name} of {info.client_id}"
        ):
            return super().remove_subscription(context, info)


def _is_unlogged(context: ConnectionContext, destination: Destination) -> bool:
    name = destination.physical_name
    return context.is_broker or destination.is_temporary or name.startswith(ADVISORY_PREFIX)


@contextmanager
def _audit(context: ConnectionContext, act: str) -> Iterator[None]:
    try:
        yield
    except JMSSecurityException:
        raise
    except Exception as error:
        audit_client(context, act, f"failed: {type(error).__name__}", logging.WARNING)
        raise
    audit_client(context, act, "done")
