"""From a message to a handler's arguments: a plan made once, followed for each message.

A parameter takes, by its annotation or mark: the raw message (`Message` or a body class),
the `Session` (of pyjms or, with `async def`, of pyjms.aio), a `Header`, all `Headers`, what is
injected (`Provide[...]`), or else the payload, converted to its type; one parameter at most
is the payload, where Spring gives it to several. No annotation, `object` and `Any` mean the
payload as the converter gives it (Spring hands the raw message to `Object`; here D16 of the
design rules).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from pyjms.annotation.params import MISSING, Header, Headers, Payload
from pyjms.errors import (
    ConfigurationException,
    ListenerExecutionFailedException,
    MessageConversionException,
)
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.handler.parameters import (
    HandlerParameter,
    InjectionMarker,
    allows_none,
    choose_payload,
    read_parameters,
)

__all__ = ["CallPlan", "Injector", "PayloadConverter", "SessionTypes"]


class PayloadConverter(Protocol):
    """The part of a MessageConverter that reads."""

    def from_message(self, message: Message, target: Any = None) -> object: ...


Injector = Callable[[InjectionMarker], Callable[[], object]]
"""Turns a `Provide[...]` into a function that supplies it; raises for one nobody knows."""

HeaderReader = Callable[[Message], Mapping[str, object]]

SessionTypes = Mapping[type, Callable[[Session], object]]
"""Annotations that ask for the session, and what the handler then gets."""

Supplier = Callable[[Message, Session | None], object]


class CallPlan:
    """How to call one handler: made at start, free of look-ups afterwards.

    Raises:
        ConfigurationException: a parameter that nobody can supply, or whose type is not known.

    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        converter: PayloadConverter,
        read_headers: HeaderReader,
        injector: Injector | None = None,
        session_types: SessionTypes | None = None,
    ) -> None:
        self.handler = handler
        self.name = f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"
        self.is_coroutine = inspect.iscoroutinefunction(handler)
        self._converter = converter
        self._read_headers = read_headers
        self._injector = injector
        self._session_types = session_types or {Session: _as_it_is}
        parameters = read_parameters(handler, self.name)
        payload = choose_payload(parameters, self._is_explained, self.name)
        suppliers = {p.name: self._supplier(p, payload) for p in parameters}
        self._by_name = any(p.injection is not None or p.is_keyword for p in parameters)
        self._names = tuple(suppliers)
        self._suppliers = tuple(suppliers.values())

    def call(self, message: Message, session: Session | None) -> Any:
        """Call the handler and return what it returns (a coroutine, if it is one).

        Raises:
            ListenerExecutionFailedException: there is no argument for a parameter.
            Exception: the handler's own.

        """
        try:
            values = [supply(message, session) for supply in self._suppliers]
        except Exception as error:
            raise ListenerExecutionFailedException(
                f"Listener method could not be invoked with incoming message: {error}",
                message=message,
            ) from error
        if self._by_name:
            return self.handler(**dict(zip(self._names, values, strict=True)))
        return self.handler(*values)

    def _is_explained(self, parameter: HandlerParameter) -> bool:
        """Whether mark or type make a parameter something else than the payload."""
        if parameter.injection is not None:
            return True
        if parameter.mark(Header) is not None or parameter.mark(Headers) is not None:
            return True
        hint = parameter.hint
        return isinstance(hint, type) and (hint in self._session_types or issubclass(hint, Message))

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Supplier:
        if parameter.injection is not None:
            return self._injected(parameter, parameter.injection)
        header = parameter.mark(Header)
        if header is not None:
            return self._header(parameter, header)
        if parameter.mark(Headers) is not None:
            return lambda message, _session: dict(self._read_headers(message))
        if parameter is payload:
            return self._payload(parameter)
        hint = parameter.hint
        if not self._is_explained(parameter):
            return lambda _message, _session: parameter.default
        present = self._session_types.get(hint)
        if present is not None:
            return lambda _message, session: None if session is None else present(session)
        return self._raw(parameter, hint)

    def _injected(self, parameter: HandlerParameter, marker: InjectionMarker) -> Supplier:
        if self._injector is None:
            raise ConfigurationException(
                f"Handler {self.name}: nobody supplies {parameter.name!r}: there is no container",
                hint="run the handler in a JmsApplication",
            )
        try:
            supply = self._injector(marker)
        except ConfigurationException as error:
            raise ConfigurationException(
                f"Handler {self.name}: nobody supplies {parameter.name!r}: {error.reason}",
                hint=error.hint,
            ) from error
        return lambda _message, _session: supply()

    def _raw(self, parameter: HandlerParameter, kind: type[Message]) -> Supplier:
        def take(message: Message, _session: Session | None) -> Message:
            if isinstance(message, kind):
                return message
            raise MessageConversionException(
                f"Parameter {parameter.name!r} of {self.name} takes a {kind.__name__}, "
                f"the message is a {type(message).__name__}",
                target=kind,
            )

        return take

    def _header(self, parameter: HandlerParameter, header: Header) -> Supplier:
        name = header.name or parameter.name
        hint = parameter.hint
        convert = self._validator(parameter, make_adapter=_adapter_of_instances)
        default = parameter.default if header.default is MISSING else header.default
        if default is MISSING and (not header.required or allows_none(hint)):
            default = None
        if default is MISSING and hint is bool:
            default = False  # Spring: a missing boolean header is false

        def take(message: Message, _session: Session | None) -> object:
            value = self._read_headers(message).get(name, MISSING)
            if value is MISSING or (value == "" and default is not MISSING):
                if default is MISSING:
                    raise MessageConversionException(
                        f"Missing header {name!r} for parameter {parameter.name!r} of {self.name}",
                        target=hint,
                        hint="give the Header a default, or let the type allow None",
                    )
                return default
            return convert(value)

        return take

    def _payload(self, parameter: HandlerParameter) -> Supplier:
        converter = self._converter
        hint = parameter.hint
        mark = parameter.mark(Payload)
        if hint in (Any, object, inspect.Parameter.empty):
            return lambda message, _session: converter.from_message(message)
        validate = self._validator(parameter)
        default = parameter.default
        optional = mark is not None and not mark.required
        if default is MISSING and (optional or allows_none(hint) or hint in (None, type(None))):
            default = None
        is_class = isinstance(hint, type)

        def take(message: Message, _session: Session | None) -> object:
            value = converter.from_message(message, hint)
            if _is_empty(value):
                if default is not MISSING:
                    return default
                raise MessageConversionException(
                    f"Payload value must not be empty: parameter {parameter.name!r} of {self.name}",
                    target=hint,
                    hint="use Payload(required=False) or a type that allows None",
                )
            if is_class and type(value) is hint:
                return value
            return validate(value)

        return take

    def _validator(
        self,
        parameter: HandlerParameter,
        make_adapter: Callable[[Any], TypeAdapter[Any]] = TypeAdapter,
    ) -> Callable[[object], object]:
        hint = parameter.hint
        if hint in (Any, object):
            return lambda value: value
        try:
            adapter: TypeAdapter[Any] = make_adapter(hint)
        except (PydanticUserError, TypeError, NameError) as error:
            raise ConfigurationException(
                f"Handler {self.name}: nobody can supply {parameter.name!r} of type {hint!r}",
                hint="take Message, Session, a Header, a payload that pydantic knows, Provide[...]",
            ) from error

        def validate(value: object) -> object:
            try:
                return adapter.validate_python(value)
            except ValidationError as error:
                problems = "; ".join(
                    f"{'.'.join(map(str, e['loc'])) or 'value'}: {e['msg']}" for e in error.errors()
                )
                raise MessageConversionException(
                    f"Parameter {parameter.name!r} of {self.name}: {problems}", target=hint
                ) from None

        return validate


def _adapter_of_instances(hint: Any) -> TypeAdapter[Any]:
    """Headers may be objects that pydantic does not know, destinations for one: no conversion."""
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # models and dataclasses have a config of their own
        return TypeAdapter(hint)


def _as_it_is(session: Session) -> Session:
    return session


def _is_empty(value: object) -> bool:
    return value is None or value == b"" or (isinstance(value, str) and not value.strip())
