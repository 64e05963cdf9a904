"""loggingBrokerPlugin: a log line for each event of the enabled kinds.

Lines contain ids and message headers, but unlike ActiveMQ's never bodies, properties or passwords.
Events that are not logged have no extra cost, because the filter does not override their methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.message import MessageReference
from pyjms_broker.attribute import attribute, flag

logger = get_logger(__name__)

MAXIMUM_LOGGERS: Final = 1000
"""The maximum number of loggers per destination: Python never deletes a logger, and clients
choose the names."""


def _switch(default: bool, things: str, events: str) -> bool:
    return attribute(default, f"Whether {things} are logged{events}.")


@dataclass(frozen=True, kw_only=True)
class LoggingBrokerPlugin:
    """Events are logged; message headers, but no bodies, properties or passwords.

    The level is INFO. Source: ActiveMQ LoggingBrokerPlugin.
    """

    log_all: bool = flag("Whether all events are logged.")
    log_connection_events: bool = _switch(True, "connections", ": opened, closed")
    log_session_events: bool = _switch(True, "sessions", ": opened, closed")
    log_transaction_events: bool = _switch(False, "transactions", ": begun, prepared, ended")
    log_consumer_events: bool = _switch(False, "consumers", ", and each pull and acknowledgement")
    log_producer_events: bool = _switch(
        False, "producers", ", and the headers of each message sent"
    )
    log_internal_events: bool = _switch(
        False, "destinations", ", and expired, dead and discarded messages"
    )
    per_destination_logger: bool = flag(
        "Whether messages sent to a destination are logged by a logger with its name."
    )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        enabled = {
            call: _logging_call(call, *line)
            for option, events in _EVENTS.items()
            if self.log_all or getattr(self, option)
            for call, line in events.items()
        }
        filter_class = type("LoggingBroker", (LoggingBroker,), enabled)
        installed: Broker = filter_class(broker, self.per_destination_logger)
        return installed


class LoggingBroker(BrokerFilter):
    """The base class of the filters; `install_plugin` derives one that overrides logged calls."""

    def __init__(self, next_broker: Broker, per_destination: bool) -> None:
        super().__init__(next_broker)
        self._per_destination = per_destination
        self._loggers: dict[str, logging.Logger] = {}

    def logger_for(self, call: str, arguments: tuple[Any, ...]) -> logging.Logger:
        """Return the logger of an event."""
        if call != "send" or not self._per_destination:
            return logger
        destination = arguments[1].destination
        if destination is None:
            return logger
        kind = destination.PREFIX.removesuffix("://")
        name = f"{logger.name}.{kind}.{destination.physical_name}"
        found = self._loggers.get(name)
        if found is None:
            if len(self._loggers) >= MAXIMUM_LOGGERS:
                return logger
            found = self._loggers[name] = get_logger(name)
        return found


_Values: TypeAlias = Callable[..., tuple[object, ...]]
"""Returns the values of a log line from the arguments of the call."""


def _logging_call(call: str, text: str, values: _Values) -> Callable[..., Any]:
    """Return a method that logs the event and passes the call on."""

    def log_and_pass_on(self: LoggingBroker, *arguments: Any, **named: Any) -> Any:
        used = self.logger_for(call, arguments)
        if used.isEnabledFor(logging.INFO):
            used.info(text, *values(*arguments, *named.values()))
        return getattr(self.next, call)(*arguments, **named)

    log_and_pass_on.__name__ = call
    return log_and_pass_on


def _headers(message: commands.ActiveMQMessage) -> str:
    """Return the headers of a message, without properties and body."""
    names = (
        "message_id",
        "destination",
        "original_destination",
        "persistent",
        "priority",
        "timestamp",
        "expiration",
        "correlation_id",
        "reply_to",
        "type",
        "redelivery_counter",
        "group_id",
        "group_sequence",
        "transaction_id",
        "user_id",
    )
    values = ((name, getattr(message, name)) for name in names)
    return ", ".join(f"{name}={value}" for name, value in values if value not in (None, 0, ""))


def _second(_: object, value: object, *_others: object) -> tuple[object, ...]:
    return (value,)


def _connection(_: object, info: commands.ConnectionInfo, *_others: object) -> tuple[object, ...]:
    return (info.connection_id, info.client_id, info.user_name)


def _session(_: object, info: commands.SessionInfo) -> tuple[object, ...]:
    return (info.session_id,)


def _consumer(
    _: object, info: commands.ConsumerInfo | commands.MessagePull, *_others: object
) -> tuple[object, ...]:
    return (info.consumer_id, info.destination)


def _producer(_: object, info: commands.ProducerInfo) -> tuple[object, ...]:
    return (info.producer_id, info.destination)


def _destination(_: object, info: Any, *_others: object) -> tuple[object, ...]:
    return (info.destination,)


def _acknowledgement(_: object, ack: commands.MessageAck) -> tuple[object, ...]:
    return (ack.destination, ack.consumer_id, ack.message_count, ack.last_message_id)


def _message(_: object, reference: MessageReference, *_others: object) -> tuple[object, ...]:
    return (_headers(reference.message),)


_EVENTS: Final[dict[str, dict[str, tuple[str, _Values]]]] = {
    "log_connection_events": {
        "add_connection": ("Adding connection %s: client id %s, user %s", _connection),
        "remove_connection": ("Removing connection %s: client id %s, user %s", _connection),
    },
    "log_session_events": {
        "add_session": ("Adding session %s", _session),
        "remove_session": ("Removing session %s", _session),
    },
    "log_transaction_events": {
        "begin_transaction": ("Beginning transaction %s", _second),
        "prepare_transaction": ("Preparing transaction %s", _second),
        "commit_transaction": ("Committing transaction %s", _second),
        "rollback_transaction": ("Rolling back transaction %s", _second),
        "forget_transaction": ("Forgetting transaction %s", _second),
        "prepared_transactions": (
            "Getting prepared transactions for client %s",
            lambda context: (context.client_id,),
        ),
    },
    "log_consumer_events": {
        "add_consumer": ("Adding consumer %s of %s", _consumer),
        "remove_consumer": ("Removing consumer %s of %s", _consumer),
        "remove_subscription": (
            "Removing subscription %s of client %s",
            lambda _, info: (info.subscription_name, info.client_id),
        ),
        "acknowledge": ("Acknowledging %s: consumer %s, %d messages to %s", _acknowledgement),
        "message_pull": ("Pulling a message: consumer %s of %s", _consumer),
        "message_consumed": ("Message consumed: %s", _message),
        "message_delivered": ("Message delivered: %s", _message),
        "message_dispatched": ("Message dispatched: %s", _message),
        "slow_consumer": (
            "Slow consumer on %s: %s",
            lambda _, to, subscription: (to.destination, subscription.info.consumer_id),
        ),
    },
    "log_producer_events": {
        "add_producer": ("Adding producer %s of %s", _producer),
        "remove_producer": ("Removing producer %s of %s", _producer),
        "send": ("Sending message: %s", lambda _, message: (_headers(message),)),
        "fast_producer": (
            "Fast producer %s of %s",
            lambda _, info, to: (info.producer_id, to.destination),
        ),
        "destination_full": ("Destination is full: %s", _destination),
    },
    "log_internal_events": {
        "add_destination_info": ("Adding destination %s", _destination),
        "remove_destination_info": ("Removing destination %s", _destination),
        "add_destination": ("Adding destination %s", _second),
        "remove_destination": ("Removing destination %s", _second),
        "message_expired": ("Message has expired: %s", _message),
        "send_to_dead_letter_queue": ("Sending to dead-letter queue: %s", _message),
        "message_without_consumers": ("Message without consumers: %s", _message),
        "message_discarded": ("Message discarded: %s", _message),
        "now_master_broker": ("The broker is the master now", lambda: ()),
        "network_bridge_started": (
            "Network bridge to broker %s at %s started",
            lambda info, _, address: (info.broker_name, address),
        ),
        "network_bridge_stopped": (
            "Network bridge to broker %s stopped",
            lambda info: (info.broker_name,),
        ),
        "network_forward_failed": (
            "Another broker has refused message %s: %s",
            lambda message, cause: (message.message_id, cause),
        ),
    },
}
"""All logged calls by option; requests for the table of destinations are not events."""
