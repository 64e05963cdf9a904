"""OpenTelemetry: spans and metrics of sends, receives, handlers and settlements.

    span                 kind       parent                            links
    -------------------  ---------  --------------------------------  ---------------------------
    send NAME            PRODUCER   the current span
    receive NAME         CLIENT     the current span                  the message's sender
    process NAME         CONSUMER   the message's sender              all senders of a batch
    commit NAME, ack,    CLIENT     the process span; the message's
    rollback                        sender if there was none

A message carries the context of its send span; a handler runs with the context of its process span
and with the sender's baggage, so that its own spans and sends belong to the trace.

Without an SDK, the API of OpenTelemetry does nothing. The values that pydantic quotes are removed
from the texts of exceptions; message bodies are never recorded.

Trace context and baggage are message properties, compatible with Java's JMS instrumentation. The
global propagator of OpenTelemetry names the fields: by default W3C's `traceparent`,
`tracestate` and `baggage`. JMS allows no `-` in the name of a property; like OpenTelemetry's Java
agent, this module writes `__dash__` instead, so that traces continue between Java and Python.

Names are those of OpenTelemetry's semantic conventions for messaging (1.37, in development); their
package is in beta and changes, so they are copied here.
https://opentelemetry.io/docs/specs/semconv/messaging/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.observability.health import Health
from pyjms.observability.instrumentation import server_of
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import error_text, one_line, shorten
from pyjms.support.retry import qualified_name
from pyjms.template.interceptors import (
    HandlerInterceptor,
    HandlerInvocation,
    Proceed,
    ReceiveInterceptor,
    ReceiveInvocation,
    SendInterceptor,
    SendInvocation,
    SettlementInterceptor,
    SettlementInvocation,
)

__all__ = ["OpenTelemetry"]

_DASH = "__dash__"


class _Properties(Getter[Message]):
    """Reads the fields of a propagator from a message's properties."""

    def get(self, carrier: Message, key: str) -> list[str] | None:
        """Return the field; None: it is absent or not a str."""
        value = carrier.properties.get(key.replace("-", _DASH))
        return [value] if isinstance(value, str) else None

    def keys(self, carrier: Message) -> list[str]:
        """Return the names of all possible fields."""
        return [name.replace(_DASH, "-") for name in carrier.properties]


_properties = _Properties()


def context_of(message: Message, around: Context) -> Context:
    """Return `around` with the trace context and baggage that a message's sender set.

    If the message's properties are damaged, `around` is returned; the handler reports the error.
    """
    try:
        return propagate.extract(message, around, _properties)
    except JMSException:
        return around


def write_context(set_property: Callable[[str, object], None], context: Context) -> None:
    """Set the properties that carry the trace context and baggage of `context`."""
    fields: dict[str, str] = {}
    propagate.inject(fields, context)
    for name, value in fields.items():
        set_property(name.replace("-", _DASH), value)


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


_LIBRARY: Final = "pyjms"
_SYSTEM: Final = "activemq"
_LONGEST_TEXT: Final = 500
_TEMPORARY: Final = "(temporary)"
"""The name of all temporary destinations in span names and metrics, as each name is unique."""

Attributes = dict[str, Any]


class OpenTelemetry:
    """The instrumentation of an application with OpenTelemetry.

    Args:
        tracer_provider: creates the tracer; None: the global provider.
        meter_provider: creates the instruments; None: the global provider.
        tracing: whether spans are created; messages carry the current trace context in any case.
        metrics: whether metrics are recorded.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        tracing: bool = True,
        metrics: bool = True,
    ) -> None:
        provider = tracer_provider if tracing else trace.NoOpTracerProvider()
        self._tracer = trace.get_tracer(_LIBRARY, tracer_provider=provider)
        self._meters = _Meters(meter_provider) if metrics else None

    def attach(self, health: Callable[[], Health]) -> None:
        """Do nothing: health is neither traced nor measured here."""

    def detach(self) -> None:
        """Do nothing."""

    def handler(self, container: AbstractMessageListenerContainer) -> HandlerInterceptor:
        """Return the interceptor of a listener's handler."""
        base = _attributes(container.connection_factory, "process", "process")
        base |= _attributes_of_listener(container)

        async def process(invocation: HandlerInvocation, proceed: Proceed) -> object:
            messages = invocation.messages or (invocation.message,)
            outer = otel_context.get_current()
            senders = [context_of(message, outer) for message in messages]
            is_batch = bool(invocation.messages)
            parent = outer if is_batch else senders[0]
            name, attributes = _name_and_attributes(base, invocation.message, container)
            own = _attributes_of_message(invocation.message)
            if is_batch:
                own = {AttributeName.BATCH_COUNT: len(messages)}
            span = self._tracer.start_span(
                f"process {name}",
                parent,
                SpanKind.CONSUMER,
                {**attributes, **own},
                _links(senders) if is_batch else None,
            )
            if self._meters is not None:
                self._meters.consumed.add(len(messages), attributes)
            measured = None if self._meters is None else self._meters.process
            with _running(span, parent, measured, attributes):
                return await proceed()

        return process

    def settlement(self, container: AbstractMessageListenerContainer) -> SettlementInterceptor:
        """Return the interceptor of a listener's commits, acknowledgements and rollbacks."""
        by_operation: Mapping[str, Attributes] = {
            name: _attributes(container.connection_factory, name, "settle")
            | _attributes_of_listener(container)
            for name in ("commit", "ack", "rollback")
        }

        async def settle(invocation: SettlementInvocation, proceed: Proceed) -> object:
            message, operation = invocation.message, invocation.operation
            if invocation.context is None:
                parent = context_of(message, otel_context.get_current())
            else:
                parent = invocation.context.run(otel_context.get_current)
            at = _name_and_attributes(by_operation[operation], message, container)
            own = _attributes_of_message(message)
            with self._operation(operation, SpanKind.CLIENT, at, parent, own):
                return await proceed()

        return settle

    def send(self, connection_factory: object) -> SendInterceptor:
        """Return the interceptor of sends over a connection factory."""
        base = _attributes(connection_factory, "send", "send")

        async def send(sending: SendInvocation, proceed: Proceed) -> object:
            at = _at(base, sending.destination)
            with self._operation("send", SpanKind.PRODUCER, at) as span:
                write_context(sending.set_property, otel_context.get_current())
                result = await proceed()
                if span.is_recording():
                    span.set_attributes(_attributes_of_message(sending.message))
            if self._meters is not None:
                self._meters.sent.add(1, at[1])
            return result

        return send

    def receive(self, connection_factory: object) -> ReceiveInterceptor:
        """Return the interceptor of a template's receives over a connection factory."""
        base = _attributes(connection_factory, "receive", "receive")

        async def receive(receiving: ReceiveInvocation, proceed: Proceed) -> object:
            at = _at(base, receiving.destination)
            with self._operation("receive", SpanKind.CLIENT, at) as span:
                result = await proceed()
                message = receiving.message
                span.set_attribute(AttributeName.BATCH_COUNT, 0 if message is None else 1)
                if message is not None and span.is_recording():
                    span.set_attributes(_attributes_of_message(message))
                    for link in _links([context_of(message, Context())]):
                        span.add_link(link.context)
            if message is not None and self._meters is not None:
                self._meters.consumed.add(1, at[1])
            return result

        return receive

    def _operation(
        self,
        verb: str,
        kind: SpanKind,
        at: tuple[str, Attributes],
        parent: Context | None = None,
        own: Attributes | None = None,
    ) -> AbstractContextManager[Span]:
        """Start the span of an operation; its metric has the attributes except `own`."""
        name, attributes = at
        parent = otel_context.get_current() if parent is None else parent
        span = self._tracer.start_span(f"{verb} {name}", parent, kind, attributes | (own or {}))
        measured = None if self._meters is None else self._meters.operation
        return _running(span, parent, measured, attributes)


class _Meters:
    """The instruments of the semantic conventions."""

    def __init__(self, provider: MeterProvider | None) -> None:
        meter = metrics.get_meter(_LIBRARY, meter_provider=provider)
        self.operation = meter.create_histogram(
            MetricName.OPERATION_DURATION,
            "s",
            "Duration of sends, receives and settlements.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.process = meter.create_histogram(
            MetricName.PROCESS_DURATION,
            "s",
            "Duration of handlers.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.sent = meter.create_counter(
            MetricName.SENT_MESSAGES, "{message}", "Messages that were sent."
        )
        self.consumed = meter.create_counter(
            MetricName.CONSUMED_MESSAGES, "{message}", "Messages that were delivered."
        )


@contextmanager
def _running(
    span: Span, parent: Context, duration: metrics.Histogram | None, attributes: Attributes
) -> Iterator[Span]:
    """Make `span` the current span of the block, and end it; record errors and the duration."""
    started = _clock.now()
    token = otel_context.attach(trace.set_span_in_context(span, parent))
    failed: Attributes = {}
    try:
        yield span
    except BaseException as error:
        failed = {AttributeName.ERROR_TYPE: qualified_name(type(error))}
        _record_error(span, error)
        raise
    finally:
        otel_context.detach(token)
        span.end()
        if duration is not None:
            duration.record(_clock.now() - started, {**attributes, **failed})


def _record_error(span: Span, error: BaseException) -> None:
    """Record an exception without the message's values that its text may quote."""
    text = shorten(one_line(error_text(error)), _LONGEST_TEXT)
    span.set_attribute(AttributeName.ERROR_TYPE, qualified_name(type(error)))
    span.add_event(
        "exception", {"exception.type": qualified_name(type(error)), "exception.message": text}
    )
    span.set_status(Status(StatusCode.ERROR, text))


def _links(senders: list[Context]) -> list[Link]:
    found = (trace.get_current_span(each).get_span_context() for each in senders)
    return [Link(context) for context in found if context.is_valid]


def _attributes(connection_factory: object, operation: str, kind: str) -> Attributes:
    attributes: Attributes = {
        AttributeName.SYSTEM: _SYSTEM,
        AttributeName.OPERATION: operation,
        AttributeName.OPERATION_TYPE: kind,
    }
    server = server_of(connection_factory)
    if server is not None:
        attributes |= {
            AttributeName.SERVER_ADDRESS: server.host,
            AttributeName.SERVER_PORT: server.port,
        }
    return attributes


def _attributes_of_listener(container: AbstractMessageListenerContainer) -> Attributes:
    return _present(
        {
            AttributeName.SUBSCRIPTION: container.durable_subscription_name,
            AttributeName.CLIENT_ID: container.client_id,
        }
    )


def _attributes_of_message(message: Message) -> Attributes:
    ids = {
        AttributeName.MESSAGE_ID: message.message_id,
        AttributeName.CONVERSATION_ID: message.correlation_id,
    }
    return _present(ids)


def _present(attributes: Attributes) -> Attributes:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value}


def _name_and_attributes(
    base: Attributes, message: Message, container: AbstractMessageListenerContainer
) -> tuple[str, Attributes]:
    destination = message.destination
    if destination is None:
        name = container.destination_description
        return name, {**base, AttributeName.DESTINATION: name}
    return _at(base, destination)


def _at(base: Attributes, destination: Destination) -> tuple[str, Attributes]:
    """Return the destination's name for a span, and the attributes with it."""
    if destination.is_temporary:
        attributes = {**base, AttributeName.DESTINATION: _TEMPORARY, AttributeName.TEMPORARY: True}
        return _TEMPORARY, attributes
    name = destination.physical_name
    return name, {**base, AttributeName.DESTINATION: name}
