"""Trace context and baggage as message properties, compatible with Java's JMS instrumentation.

The global propagator of OpenTelemetry names the fields: by default W3C's `traceparent`,
`tracestate` and `baggage`. JMS allows no `-` in the name of a property; like OpenTelemetry's Java
agent, this module writes `__dash__` instead, so that traces continue between Java and Python.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from pyjms.errors import JMSException
from pyjms.jms.message import Message

__all__ = ["context_of", "write_context"]

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
