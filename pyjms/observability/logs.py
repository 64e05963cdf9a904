"""Logs with the context of the message that is being handled, and logs as JSON.

    logging.getLogger(__name__).info("priced")
    {"time": "2026-11-25T12:00:00.123Z", "level": "INFO", "logger": "shop", "message": "priced",
     "listener_id": "orders", "destination": "queue://orders.new", "message_id": "ID:...",
     "correlation_id": "...", "trace_id": "...", "span_id": "..."}

`message_context` is the interceptor that stores the message in a context variable; `MessageContext`
is a filter that adds its fields to a log handler's records, for your own formatters; with
`JsonFormatter`, neither a filter nor field names are needed. `pyjms run --log-format json` and
`logging: {format: json}` set up all of this. Trace ids are those of OpenTelemetry's current span,
if it is in use.
Message bodies are never logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.runtime.logging import error_text, span_fields
from pyjms.template.interceptors import HandlerInvocation, Proceed
from pyjms.wire.openwire.commands import MessageId

__all__ = ["JsonFormatter", "MessageContext", "context_fields", "message_context"]

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; all others come from `extra`."""

_FIELDS: Final = (
    "listener_id",
    "destination",
    "message_id",
    "correlation_id",
    "trace_id",
    "span_id",
)

_current: ContextVar[tuple[str | None, Message] | None] = ContextVar(
    "pyjms_log_context", default=None
)


async def message_context(invocation: HandlerInvocation, proceed: Proceed) -> object:
    """Set the message as the context of log records of the handler's call: an interceptor."""
    token = _current.set((invocation.listener_id, invocation.message))
    try:
        return await proceed()
    finally:
        _current.reset(token)


def context_fields() -> dict[str, str]:
    """Return the fields of the message being handled in this context, and of the current span."""
    fields: dict[str, str] = {}
    current = _current.get()
    if current is not None:
        listener_id, message = current
        found = {
            "listener_id": listener_id,
            "destination": None if message.destination is None else str(message.destination),
            "message_id": message.message_id,
            "correlation_id": message.correlation_id,
        }
        fields = {name: value for name, value in found.items() if value is not None}
    return fields | span_fields()


class MessageContext(logging.Filter):
    """Adds the context's attributes (listener_id, destination, message_id, ...) to records.

    Those that do not apply are None. Existing attributes are not replaced. Add it to a log handler.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes to the record, and return True."""
        fields = context_fields()
        for name in _FIELDS:
            if getattr(record, name, None) is None:
                setattr(record, name, fields.get(name))
        return True


_FIELD_BY_TYPE: Final = ((Destination, "destination"), (MessageId, "message_id"))


def _fields_of_values(args: object) -> dict[str, object]:
    """Return the fields of the values in a record's message; of several, the first one's count."""
    fields: dict[str, object] = {}
    for value in args if isinstance(args, tuple) else ():
        found = getattr(value, "log_fields", None)
        if isinstance(found, Mapping):
            fields = {**found, **fields}
        for kind, name in _FIELD_BY_TYPE:
            if isinstance(value, kind):
                fields.setdefault(name, str(value))
    return fields


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object in one line, with the message's context.

    Fields: time (UTC), level, logger, message; the context; what the values in the message are: the
    `destination`, the `message_id`, and the `log_fields` of values that have them, such as the
    broker's connections; the fields of `extra`; for an exception `error` with its type, its message
    and, if the record has one, its traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC)
        entry: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= context_fields()
        entry |= _fields_of_values(record.args)
        entry |= {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD and value is not None
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["error"] = {
                "type": type(error).__name__,
                "message": error_text(error),
                "traceback": record.exc_text or self.formatException(record.exc_info),
            }
        if record.stack_info:
            entry["stack"] = self.formatStack(record.stack_info)
        return json.dumps(entry, ensure_ascii=False, default=error_text)
