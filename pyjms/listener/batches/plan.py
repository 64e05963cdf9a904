"""The call plan of a batch handler: arguments are resolved per message and collected in columns.

A parameter of a batch handler is one of

    list[Order], Batch[Order]           the payloads, each converted to Order
    list[Message], list[TextMessage]    the messages
    Annotated[list[str], Header(...)]   a header of each message; Annotated[list[dict], Headers()]
    Batch, Batch[Order]                 the batch, to reject messages; also beside such a list
    Session, Provide[...]               once for the batch, as in other handlers

The lists are in the order of the messages and equally long: a message that cannot be converted to
one of the arguments is in none of them. It is rejected, without an effect on the others. If no
message remains, the handler is not called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast, get_args, get_origin

from pyjms._logger import get_logger
from pyjms.annotation.params import MISSING, Header, Headers
from pyjms.errors import ConfigurationException, UnreadableMessageException
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.batches.batch import Batch
from pyjms.listener.handler.adapter import HandlerAdapter
from pyjms.listener.handler.arguments import CallPlan
from pyjms.listener.handler.interceptors import HandlerInvocation
from pyjms.listener.handler.parameters import HandlerParameter, read_parameters, split_annotation

__all__ = ["BatchHandlerAdapter", "BatchPlan"]

logger: Final = get_logger(__name__)

_COLUMNS: Final = (list, Batch)
"""The types of a parameter that collects one value per message."""


class BatchPlan(CallPlan):
    """The plan by which a batch handler is called; its `call` takes a Batch instead of a message.

    Raises:
        ConfigurationException: a parameter cannot be supplied or must be a list, or the handler
            has a result.
    """

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self._columns: dict[str, type] = {}
        self._batches: set[str] = set()
        super().__init__(handler, **options)
        self._each = [name in self._columns for name in self._names]

    def call(self, message: Any, session: Session | None) -> Any:
        """Call the handler with a Batch; return None if none of its messages can be read.

        Raises:
            UnreadableMessageException: a message cannot be converted to a parameter, and unreadable
                messages are not rejected alone.
            ListenerExecutionFailedException: a parameter cannot be supplied now.
            Exception: the handler's own.
        """
        batch = cast("Batch[Any]", message)
        rows: list[list[object]] = []
        unreadable: dict[int, BaseException] = {}
        suppliers = [s for s, each in zip(self._suppliers, self._each, strict=True) if each]
        for position, received in enumerate(batch.received):
            if position in batch.rejections:
                continue
            try:
                rows.append([supply(received, session) for supply in suppliers])
            except Exception as error:
                failure = self._not_invoked(error, received)
                failure.__cause__ = error
                is_refused = isinstance(failure, UnreadableMessageException)
                if not is_refused or not batch.refuses_unreadable:
                    raise failure from error
                unreadable[position] = error
        if not rows:
            batch.fill([], unreadable)
            return _nothing() if self.is_coroutine else None
        return self._call_with(self._values(batch, rows, unreadable, session))

    def _values(
        self,
        batch: Batch[Any],
        rows: list[list[object]],
        unreadable: Mapping[int, BaseException],
        session: Session | None,
    ) -> list[object]:
        columns = [list(column) for column in zip(*rows, strict=True)]
        names = [name for name in self._names if name in self._columns]
        by_name = dict(zip(names, columns, strict=True))
        items = by_name.get(self._items_of) if self._items_of else None
        if items is None:
            left_out = {*unreadable, *batch.rejections}
            items = [m for n, m in enumerate(batch.received) if n not in left_out]
        batch.fill(items, unreadable)
        last = batch.received[-1]
        values: list[object] = []
        for name, supply in zip(self._names, self._suppliers, strict=True):
            if name in self._columns:
                values.append(batch if self._columns[name] is Batch else by_name[name])
            elif name in self._batches:
                values.append(batch)
            else:
                try:
                    values.append(supply(last, session))
                except Exception as error:
                    raise self._not_invoked(error, last) from error.__cause__ or error
        return values

    def _read_parameters(self, handler: Callable[..., Any]) -> list[HandlerParameter]:
        result = inspect.signature(handler).return_annotation
        if result not in (None, "None", inspect.Signature.empty):
            raise ConfigurationException(
                f"Handler {self.name}: the result of a batch handler is not sent anywhere",
                hint="annotate it with `-> None`, and send replies with a template",
            )
        found = [self._of_one(parameter) for parameter in read_parameters(handler, self.name)]
        has_list = any(self._is_list_of_payloads(parameter) for parameter in found)
        for parameter in found:
            if has_list and self._columns.get(parameter.name) is Batch:
                del self._columns[parameter.name]
                self._batches.add(parameter.name)
        return found

    def _is_list_of_payloads(self, parameter: HandlerParameter) -> bool:
        is_list = self._columns.get(parameter.name) is list
        return is_list and not self._is_not_payload(parameter)

    def _of_one(self, parameter: HandlerParameter) -> HandlerParameter:
        """Return the parameter as it would be for a single message; note its column."""
        hint, name = parameter.hint, parameter.name
        if hint is Batch:
            self._batches.add(name)
            return parameter
        marked = parameter.marker(Header) or parameter.marker(Headers)
        if parameter.injection is not None or (
            isinstance(hint, type) and hint in self._session_types
        ):
            return parameter
        if parameter.keeps_default and marked is None and not _is_column(hint):
            return parameter
        if hint in (Any, object) and marked is None:
            self._columns[name] = list
            return replace(parameter, default=MISSING)
        if not _is_column(hint):
            raise self._not_a_list(parameter, marked)
        kind = get_origin(hint) or hint
        arguments = get_args(hint)
        inner, further = split_annotation(arguments[0]) if arguments else (Any, ())
        self._columns[name] = kind
        markers = (*parameter.markers, *further)
        return replace(parameter, hint=inner, markers=markers, default=MISSING)

    def _not_a_list(self, parameter: HandlerParameter, marked: object) -> ConfigurationException:
        shown = getattr(parameter.hint, "__name__", str(parameter.hint))
        what = "header" if marked is not None else "payload"
        return ConfigurationException(
            f"Handler {self.name}: parameter {parameter.name!r} must be a list, as the listener "
            f"has a batch_size: it gets the {what} of each message",
            hint=f"write list[{shown}]",
        )

    def _is_not_payload(self, parameter: HandlerParameter) -> bool:
        return parameter.name in self._batches or super()._is_not_payload(parameter)

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Any:
        if payload is not None:
            self._items_of = payload.name
        if parameter.name in self._batches:
            return _no_value
        return super()._supplier(parameter, payload)

    _items_of = ""
    """The parameter whose payloads become the batch's items; "": the messages are the items."""


class BatchHandlerAdapter(HandlerAdapter):
    """A listener, `async (batch, session)`, that calls the handler of a BatchPlan."""

    def _invocation(self, message: Any, session: Session) -> HandlerInvocation:
        batch = cast("Batch[Message]", message)
        invocation = super()._invocation(batch.received[-1], session)
        invocation.messages = batch.received
        return invocation

    async def _reply(self, result: object, message: Message, session: Session) -> None:
        logger.debug("The result of batch listener %s is not sent anywhere", self.listener_id)


def _is_column(hint: Any) -> bool:
    return hint is list or get_origin(hint) in _COLUMNS


def _no_value(_message: Message, _session: Session | None) -> object:
    return None


async def _nothing() -> None:
    """Do nothing, in place of a coroutine handler that is not called."""
