"""loggingBrokerPlugin: a log line for each event of the enabled kinds.

Lines contain ids and message headers, but unlike ActiveMQ's never bodies, properties or passwords.
Events that are not logged have no extra cost, because the filter does not override their methods.
(activemq-broker 1.1)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo
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
    """Selects the events to log, at level INFO. Source: ActiveMQ LoggingBrokerPlugin."""

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
            event.call: _logging_call(event)
            for event in _EVENTS
            if self.log_all or any(getattr(self, switch) for switch in event.switches)
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


class _Event(NamedTuple):
    call: str
    switches: tuple[str, ...]
    text: str
    values: Callable[..., tuple[object, ...]]
    """Returns the values for `text` from the arguments of the call."""


def _logging_call(event: _Event) -> Callable[..., Any]:
    """Return a method that logs the event and passes the call on."""
    call, text, values = event.call, event.text, event.values

    def log_and_pass_on(self: LoggingBroker, *arguments: Any, **named: Any) -> Any:
        used = self.logger_for(call, arguments)
        if used.isEnabledFor(logging.INFO):
            used.info(text, *values(*arguments, *named.values()))
        return getattr(self.next, call)(*arguments, **named)

    log_and_pass_on.__name__ = call
    return log_and_pass_on


def _headers(message: ActiveMQMessage) -> str:
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


def _connection(info: ConnectionInfo) -> tuple[object, ...]:
    return (info.connection_id, info.client_id, info.user_name)


def _reference(reference: MessageReference) -> tuple[object, ...]:
    return (_headers(reference.message),)


def _slow_consumer(_: object, destination: Any, subscription: Any) -> tuple[object, ...]:
    return (destination.destination, subscription.info.consumer_id)


_Values: TypeAlias = Callable[..., tuple[object, ...]]


def _second_of(values: _Values) -> _Values:
    """Return a function that applies `values` to the second argument of a call."""
    return lambda *arguments: values(arguments[1])


_CONNECTION: Final = ("log_connection_events",)
_SESSION: Final = ("log_session_events",)
_TRANSACTION: Final = ("log_transaction_events",)
_CONSUMER: Final = ("log_consumer_events",)
_PRODUCER: Final = ("log_producer_events",)
_INTERNAL: Final = ("log_internal_events",)

_IDENTITY: Final = _second_of(lambda value: (value,))
_MESSAGE: Final = _second_of(_reference)


def _event(call: str, switches: tuple[str, ...], text: str, values: _Values = _IDENTITY) -> _Event:
    return _Event(call, switches, text, values)


_CONSUMER_INFO: Final = _second_of(lambda info: (info.consumer_id, info.destination))
_SUBSCRIBER: Final = _second_of(lambda info: (info.subscription_name, info.client_id))
_PRODUCER_INFO: Final = _second_of(lambda info: (info.producer_id, info.destination))
_DESTINATION_INFO: Final = _second_of(lambda info: (info.destination,))

_EVENTS: Final = (
    _event(
        "add_connection",
        _CONNECTION,
        "Adding connection %s: client id %s, user %s",
        _second_of(_connection),
    ),
    _event(
        "remove_connection",
        _CONNECTION,
        "Removing connection %s: client id %s, user %s",
        _second_of(_connection),
    ),
    _event(
        "add_session", _SESSION, "Adding session %s", _second_of(lambda info: (info.session_id,))
    ),
    _event(
        "remove_session",
        _SESSION,
        "Removing session %s",
        _second_of(lambda info: (info.session_id,)),
    ),
    _event("begin_transaction", _TRANSACTION, "Beginning transaction %s"),
    _event("prepare_transaction", _TRANSACTION, "Preparing transaction %s"),
    _event("commit_transaction", _TRANSACTION, "Committing transaction %s"),
    _event("rollback_transaction", _TRANSACTION, "Rolling back transaction %s"),
    _event("forget_transaction", _TRANSACTION, "Forgetting transaction %s"),
    _event(
        "prepared_transactions",
        _TRANSACTION,
        "Getting prepared transactions for client %s",
        lambda context: (context.client_id,),
    ),
    _event("add_consumer", _CONSUMER, "Adding consumer %s of %s", _CONSUMER_INFO),
    _event("remove_consumer", _CONSUMER, "Removing consumer %s of %s", _CONSUMER_INFO),
    _event("remove_subscription", _CONSUMER, "Removing subscription %s of client %s", _SUBSCRIBER),
    _event(
        "acknowledge",
        _CONSUMER,
        "Acknowledging %s: consumer %s, %d messages to %s",
        _second_of(
            lambda ack: (ack.destination, ack.consumer_id, ack.message_count, ack.last_message_id)
        ),
    ),
    _event("message_pull", _CONSUMER, "Pulling a message: consumer %s of %s", _CONSUMER_INFO),
    _event("message_consumed", _CONSUMER, "Message consumed: %s", _MESSAGE),
    _event("message_delivered", _CONSUMER, "Message delivered: %s", _MESSAGE),
    _event("message_dispatched", _CONSUMER, "Message dispatched: %s", _MESSAGE),
    _event("slow_consumer", _CONSUMER, "Slow consumer on %s: %s", _slow_consumer),
    _event("add_producer", _PRODUCER, "Adding producer %s of %s", _PRODUCER_INFO),
    _event("remove_producer", _PRODUCER, "Removing producer %s of %s", _PRODUCER_INFO),
    _event(
        "send", _PRODUCER, "Sending message: %s", _second_of(lambda message: (_headers(message),))
    ),
    _event(
        "fast_producer",
        _PRODUCER,
        "Fast producer %s of %s",
        lambda _, info, destination: (info.producer_id, destination.destination),
    ),
    _event(
        "destination_full",
        _PRODUCER,
        "Destination is full: %s",
        _second_of(lambda destination: (destination.destination,)),
    ),
    _event("add_destination_info", _INTERNAL, "Adding destination %s", _DESTINATION_INFO),
    _event("remove_destination_info", _INTERNAL, "Removing destination %s", _DESTINATION_INFO),
    _event("add_destination", _INTERNAL, "Adding destination %s"),
    _event("remove_destination", _INTERNAL, "Removing destination %s"),
    _event("message_expired", _INTERNAL, "Message has expired: %s", _MESSAGE),
    _event("send_to_dead_letter_queue", _INTERNAL, "Sending to dead-letter queue: %s", _MESSAGE),
    _event("message_without_consumers", _INTERNAL, "Message without consumers: %s", _MESSAGE),
    _event("message_discarded", _INTERNAL, "Message discarded: %s", _MESSAGE),
    _event("now_master_broker", _INTERNAL, "The broker is the master now", lambda *_: ()),
    _event(
        "network_bridge_started",
        _INTERNAL,
        "Network bridge to broker %s at %s started",
        lambda info, _, address: (info.broker_name, address),
    ),
    _event(
        "network_bridge_stopped",
        _INTERNAL,
        "Network bridge to broker %s stopped",
        lambda info: (info.broker_name,),
    ),
    _event(
        "network_forward_failed",
        _INTERNAL,
        "Another broker has refused message %s: %s",
        lambda message, cause: (message.message_id, cause),
    ),
)
"""All logged calls; requests for the table of destinations are not events."""
