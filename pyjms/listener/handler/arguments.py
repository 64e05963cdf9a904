"""Argument resolution: the call plan, made once for a handler and used for each message.

Theory of operation (spring-jms 6.1; decisions D16)
---------------------------------------------------

When a listener is created, each parameter of its handler is assigned a *supplier*, a function of
(message, session). The annotation or marker determines which one, in this order:

    1. `Provide[...]`, `Provider[...]`, `Closing[...]`   an object of the application's container
    2. `Header(...)`                                     one header or property, converted
    3. `Headers()`                                       all headers and properties, as a dict
    4. type `Message` or a body class                    the raw message
    5. type `Session` (of pyjms, or of pyjms.aio with `async def`)
    6. supported by a custom argument resolver           what the resolver returns
    7. type `GenericMessage[T]`                          the payload as T, with all headers
    8. everything else                                   the payload, converted to its type

At most one parameter without a marker may be the payload, whereas Spring passes it to several: a
second one is mostly a forgotten marker. All parameters that are marked with `Payload` get it. A
parameter that has a plain default, no marker and is not the first one keeps its default. Without an
annotation, and for `object` and `Any`, the payload is passed as the converter returns it (Spring
passes the raw message to `Object`).

Everything that can be wrong with a handler is detected while the plan is made, before anything
connects: unreadable annotations, two payloads, types that pydantic does not know, unknown
providers. A call then only runs the suppliers and the handler, without inspection or look-ups by
name. Arguments are passed by position unless a parameter is keyword-only or injected, because
dependency-injector's `@inject` recognises injected arguments by name.

For a `def` handler the suppliers run in the consumer's thread, conversion included.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, get_args, get_origin

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from pyjms.annotation.params import MISSING, Header, Headers, Payload
from pyjms.errors import (
    ConfigurationException,
    JMSException,
    ListenerExecutionFailedException,
    MessageConversionException,
    UnreadableMessageException,
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
from pyjms.support.headers import MESSAGE_ATTRIBUTES
from pyjms.support.messaging import GenericMessage

__all__ = ["CallPlan", "Injector", "ParameterResolver", "PayloadConverter", "SessionTypes"]


class PayloadConverter(Protocol):
    """The part of MessageConverter that converts messages to payloads."""

    def from_message(self, message: Message, target: Any = None) -> object:
        """Return the payload of `message`, as `target` if that is a type."""


class ParameterResolver(Protocol):
    """A custom argument resolver; see `pyjms.listener.registrar.ArgumentResolver`."""

    def supports(self, parameter: HandlerParameter) -> bool:
        """Return whether it supplies this parameter."""

    def resolve(
        self, parameter: HandlerParameter, message: Message, session: Session | None
    ) -> object:
        """Return the argument."""


Injector = Callable[[InjectionMarker], Callable[[], object]]
"""Turns a `Provide[...]` into a function that supplies the object; raises if it is unknown."""

HeaderReader = Callable[[Message], Mapping[str, object]]

SessionTypes = Mapping[type, Callable[[Session], object]]
"""Annotations that request the session, and what is passed for each."""

Supplier = Callable[[Message, Session | None], object]


class CallPlan:
    """The plan by which one handler is called: made at start, without look-ups in a call.

    Raises:
        ConfigurationException: a parameter cannot be supplied, or its type is not known.
    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        converter: PayloadConverter,
        read_headers: HeaderReader,
        injector: Injector | None = None,
        session_types: SessionTypes | None = None,
        resolvers: Sequence[ParameterResolver] = (),
    ) -> None:
        self._resolvers = tuple(resolvers)
        self.handler = handler
        self.name: str = f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"
        self.is_coroutine: bool = inspect.iscoroutinefunction(handler)
        self._converter = converter
        self._read_headers = read_headers
        self._injector = injector
        self._session_types = session_types or {Session: _unchanged}
        parameters = self._read_parameters(handler)
        payload = choose_payload(parameters, self._is_not_payload, self.name)
        self.parameters: tuple[HandlerParameter, ...] = tuple(parameters)
        """The handler's parameters."""
        self.payload = payload
        """The parameter that gets the payload; None: the handler takes no payload."""
        suppliers = self._suppliers_of(parameters, payload)
        self._by_name = any(p.injection is not None or p.is_keyword for p in parameters)
        self._names = tuple(suppliers)
        self._suppliers = tuple(suppliers.values())

    def call(self, message: Message, session: Session | None) -> Any:
        """Call the handler and return its result (a coroutine, for a coroutine function).

        Raises:
            UnreadableMessageException: a parameter cannot be made of this message.
            ListenerExecutionFailedException: a parameter cannot be supplied now.
            Exception: the handler's own.
        """
        try:
            values = [supply(message, session) for supply in self._suppliers]
        except Exception as error:
            raise self._not_invoked(error, message) from _cause_of(error)
        return self._call_with(values)

    def _call_with(self, values: Sequence[object]) -> Any:
        """Call the handler with the values of its parameters, in their order."""
        if self._by_name:
            return self.handler(**dict(zip(self._names, values, strict=True)))
        return self.handler(*values)

    def _not_invoked(self, error: Exception, message: Message) -> ListenerExecutionFailedException:
        """Return the exception for an argument that cannot be made of a message."""
        return _unreadable_or_not(error)(
            f"Listener method could not be invoked with incoming message: {error}",
            message=message,
        )

    def _read_parameters(self, handler: Callable[..., Any]) -> list[HandlerParameter]:
        return read_parameters(handler, self.name)

    def _suppliers_of(
        self, parameters: list[HandlerParameter], payload: HandlerParameter | None
    ) -> dict[str, Supplier]:
        problems: list[ConfigurationException] = []
        suppliers: dict[str, Supplier] = {}
        for parameter in parameters:
            try:
                suppliers[parameter.name] = self._supplier(parameter, payload)
            except ConfigurationException as error:
                problems.append(error)
        if problems:
            raise ConfigurationException.joined(problems)
        return suppliers

    def _is_not_payload(self, parameter: HandlerParameter) -> bool:
        """Return whether a parameter's marker or type excludes that it is the payload."""
        if parameter.injection is not None:
            return True
        if parameter.marker(Header) is not None or parameter.marker(Headers) is not None:
            return True
        hint = parameter.hint
        if get_origin(hint) is GenericMessage or hint is GenericMessage:
            return True
        if self._resolver_of(parameter) is not None:
            return True
        return isinstance(hint, type) and (hint in self._session_types or issubclass(hint, Message))

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Supplier:
        if parameter.injection is not None:
            return self._injected(parameter, parameter.injection)
        header = parameter.marker(Header)
        if header is not None:
            return self._header(parameter, header)
        if parameter.marker(Headers) is not None:
            return lambda message, _session: dict(self._read_headers(message))
        if (resolver := self._resolver_of(parameter)) is not None:
            return lambda message, session: resolver.resolve(parameter, message, session)
        if get_origin(parameter.hint) is GenericMessage or parameter.hint is GenericMessage:
            return self._generic(parameter)
        if parameter is payload or parameter.marker(Payload) is not None:
            return self._payload(parameter)
        hint = parameter.hint
        if not self._is_not_payload(parameter):
            return lambda _message, _session: parameter.default
        convert_session = self._session_types.get(hint)
        if convert_session is not None:
            return lambda _message, session: None if session is None else convert_session(session)
        return self._raw(parameter, hint)

    def _injected(self, parameter: HandlerParameter, marker: InjectionMarker) -> Supplier:
        if self._injector is None:
            raise ConfigurationException(
                f"Handler {self.name}: parameter {parameter.name!r} cannot be injected: there is "
                "no container",
                hint="run the handler in a JmsApplication",
            )
        try:
            supply = self._injector(marker)
        except ConfigurationException as error:
            raise ConfigurationException(
                f"Handler {self.name}: parameter {parameter.name!r} cannot be injected: "
                f"{error.reason}",
                hint=error.hint,
            ) from error

        def inject(_message: Message, _session: Session | None) -> object:
            try:
                return supply()
            except Exception as error:  # a failure of the service, not of this message
                raise _InjectionError(str(error)) from error

        return inject

    def _resolver_of(self, parameter: HandlerParameter) -> ParameterResolver | None:
        return next((r for r in self._resolvers if r.supports(parameter)), None)

    def _generic(self, parameter: HandlerParameter) -> Supplier:
        (hint,) = get_args(parameter.hint) or (Any,)
        payload = self._payload(replace(parameter, hint=hint, default=MISSING))

        def supply(message: Message, session: Session | None) -> object:
            return GenericMessage(payload(message, session), self._read_headers(message))

        return supply

    def _raw(self, parameter: HandlerParameter, kind: type[Message]) -> Supplier:
        def supply(message: Message, _session: Session | None) -> Message:
            if isinstance(message, kind):
                return message
            raise MessageConversionException(
                f"Parameter {parameter.name!r} of {self.name} is a {kind.__name__}, "
                f"the message is a {type(message).__name__}",
                target=kind,
            )

        return supply

    def _header(self, parameter: HandlerParameter, header: Header) -> Supplier:
        name = header.name or parameter.name
        other_name = MESSAGE_ATTRIBUTES.get(name)
        hint = parameter.hint
        convert = self._validator(parameter, make_adapter=_adapter_of_instances)
        default = parameter.default if header.default is MISSING else header.default
        if default is MISSING and (not header.required or allows_none(hint)):
            default = None
        if default is MISSING and hint is bool:
            default = False  # Spring: a missing boolean header is false

        def supply(message: Message, _session: Session | None) -> object:
            headers = self._read_headers(message)
            value = headers.get(name, MISSING)
            if value is MISSING and other_name is not None:
                value = headers.get(other_name, MISSING)
            if value is MISSING or (value == "" and default is not MISSING):
                if default is MISSING:
                    raise MessageConversionException(
                        f"Missing header {name!r} for parameter {parameter.name!r} of {self.name}",
                        target=hint,
                        hint="give the Header a default, or let the type allow None",
                    )
                return default
            return convert(value)

        return supply

    def _payload(self, parameter: HandlerParameter) -> Supplier:
        converter = self._converter
        hint = parameter.hint
        marker = parameter.marker(Payload)
        if hint in (Any, object, inspect.Parameter.empty):
            return lambda message, _session: converter.from_message(message)
        validate = self._validator(parameter)
        default = parameter.default
        optional = marker is not None and not marker.required
        if default is MISSING and (optional or allows_none(hint) or hint in (None, type(None))):
            default = None
        is_class = isinstance(hint, type)
        constrained = bool(parameter.constraints)

        def supply(message: Message, _session: Session | None) -> object:
            value = converter.from_message(message, hint)
            if _is_empty(value):
                if default is not MISSING:
                    return default
                raise MessageConversionException(
                    f"Payload value must not be empty: parameter {parameter.name!r} of {self.name}",
                    target=hint,
                    hint="use Payload(required=False) or a type that allows None",
                )
            if is_class and type(value) is hint and not constrained:
                return value
            return validate(value)

        return supply

    def _validator(
        self,
        parameter: HandlerParameter,
        make_adapter: Callable[[Any], TypeAdapter[Any]] = TypeAdapter,
    ) -> Callable[[object], object]:
        hint = parameter.hint
        if hint in (Any, object):
            return lambda value: value
        try:
            adapter: TypeAdapter[Any] = make_adapter(parameter.validated_hint)
        except (PydanticUserError, TypeError, NameError) as error:
            raise ConfigurationException(
                f"Handler {self.name}: parameter {parameter.name!r} of type {hint!r} cannot be "
                "supplied",
                hint="use Message, Session, a Header, a type that pydantic knows, or Provide[...]",
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


class _InjectionError(Exception):
    """A provider of the application's container raised (its cause)."""


_UNREADABLE = (
    JMSException,  # conversion, and bodies that cannot be read
    ValueError,
    TypeError,
    LookupError,
)


def _cause_of(error: Exception) -> BaseException | None:
    return error.__cause__ if isinstance(error, _InjectionError) else error


def _unreadable_or_not(error: Exception) -> type[ListenerExecutionFailedException]:
    """Return the exception class for an argument: unreadable message, or failed service.

    A converter of the application may call other services, so only errors in the data make a
    message unreadable.
    """
    if isinstance(error, _UNREADABLE) and not getattr(error, "retryable", False):
        return UnreadableMessageException
    return ListenerExecutionFailedException


def _adapter_of_instances(hint: Any) -> TypeAdapter[Any]:
    """Return an adapter that accepts instances of types unknown to pydantic (destinations)."""
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # models and dataclasses have their own config
        return TypeAdapter(hint)


def _unchanged(session: Session) -> Session:
    return session


def _is_empty(value: object) -> bool:
    return value is None or value == b"" or (isinstance(value, str) and not value.strip())
