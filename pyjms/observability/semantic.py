"""Names of OpenTelemetry's semantic conventions for messaging (1.37, in development).

Their package is in beta and changes; the names are copied here, so that they change only with
pyjms.
https://opentelemetry.io/docs/specs/semconv/messaging/
"""

from __future__ import annotations

from typing import Final

__all__ = ["BUCKETS", "AttributeName", "MetricName"]


class AttributeName:
    """The attributes of spans and metrics."""

    SYSTEM: Final = "messaging.system"
    OPERATION: Final = "messaging.operation.name"
    OPERATION_TYPE: Final = "messaging.operation.type"
    DESTINATION: Final = "messaging.destination.name"
    TEMPORARY: Final = "messaging.destination.temporary"
    SUBSCRIPTION: Final = "messaging.destination.subscription.name"
    CLIENT_ID: Final = "messaging.client.id"
    MESSAGE_ID: Final = "messaging.message.id"
    CONVERSATION_ID: Final = "messaging.message.conversation_id"
    BATCH_COUNT: Final = "messaging.batch.message_count"
    SERVER_ADDRESS: Final = "server.address"
    SERVER_PORT: Final = "server.port"
    ERROR_TYPE: Final = "error.type"


class MetricName:
    """The metrics."""

    OPERATION_DURATION: Final = "messaging.client.operation.duration"
    SENT_MESSAGES: Final = "messaging.client.sent.messages"
    CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
    PROCESS_DURATION: Final = "messaging.process.duration"


BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Upper bounds of the histograms in seconds, as recommended by the conventions."""
