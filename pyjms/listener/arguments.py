"""From a message to a handler's arguments: a plan made once, followed for each message.

A parameter takes, by its annotation: the raw message (`Message` or a body class), the
`Session` (of pyjms or, with `async def`, of pyjms.aio), a `Header`, all `Headers`, what is
injected (`Provide[...]`), or else the payload, converted to its type. No annotation,
`object` and `Any` mean the payload as the converter gives it (Spring hands the raw message
to `Object`; here D16 of the design rules).
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol, Union, get_args, get_origin

import dependency_injector.wiring
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from pyjms.annotation.params import MISSING, Header, Headers, Payload
from pyjms.errors import (
    ConfigurationException,
    ListenerExecutionFailedException,
    MessageConversionException,
)
from pyjms.jms.api import Session
from pyjms.jms.message import Message

InjectionMarker = Any
"""A `Provide[...]`, `Provider[...]` or `Closing[...]` of dependency-injector."""

_MARKER: type = vars(dependency_injector.wiring)["_Marker"]

__all__ = ["CallPlan", "Injector", "PayloadConverter", "SessionTypes", "injection_marker"]


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
        parameters = self._parameters()
        suppliers = {p.name: self._supplier(p, hint) for p, hint in parameters}
        self._by_name = any(injection_marker(p, hint) is not None for p, hint in parameters) or any(
            p.kind is p.KEYWORD_ONLY for p, _ in parameters
        )
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

    def _parameters(self) -> list[tuple[inspect.Parameter, Any]]:
        try:
            signature = inspect.signature(self.handler)
            hints = typing.get_type_hints(_function(self.handler), include_extras=True)
        except (NameError, TypeError, ValueError) as error:
            raise ConfigurationException(
                f"Handler {self.name}: its annotations cannot be read: {error}",
                hint="types of parameters must be importable at module level",
            ) from error
        chosen = []
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            chosen.append((parameter, hints.get(parameter.name, Any)))
        return chosen

    def _supplier(self, parameter: inspect.Parameter, hint: Any) -> Supplier:
        marker = injection_marker(parameter, hint)
        if marker is not None:
            return self._injected(parameter, marker)
        bare, extras = _split(hint)
        for extra in extras:
            if extra is Header:
                return self._header(parameter, bare, Header())
            if isinstance(extra, Header):
                return self._header(parameter, bare, extra)
            if isinstance(extra, Headers) or extra is Headers:
                return lambda message, _session: dict(self._read_headers(message))
        present = self._session_types.get(bare) if isinstance(bare, type) else None
        if present is not None:
            return lambda _message, session: None if session is None else present(session)
        if isinstance(bare, type) and issubclass(bare, Message):
            return self._raw(parameter, bare)
        required = next((e.required for e in extras if isinstance(e, Payload)), True)
        return self._payload(parameter, bare, required=required)

    def _injected(self, parameter: inspect.Parameter, marker: InjectionMarker) -> Supplier:
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

    def _raw(self, parameter: inspect.Parameter, kind: type[Message]) -> Supplier:
        def take(message: Message, _session: Session | None) -> Message:
            if isinstance(message, kind):
                return message
            raise MessageConversionException(
                f"Parameter {parameter.name!r} of {self.name} takes a {kind.__name__}, "
                f"the message is a {type(message).__name__}",
                target=kind,
            )

        return take

    def _header(self, parameter: inspect.Parameter, hint: Any, header: Header) -> Supplier:
        name = header.name or parameter.name
        convert = self._validator(parameter, hint, make_adapter=_adapter_of_instances)
        default = header.default
        if default is MISSING and parameter.default is not parameter.empty:
            default = parameter.default
        if default is MISSING and (not header.required or _allows_none(hint)):
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

    def _payload(self, parameter: inspect.Parameter, hint: Any, *, required: bool) -> Supplier:
        converter = self._converter
        if hint in (Any, object, inspect.Parameter.empty):
            return lambda message, _session: converter.from_message(message)
        validate = self._validator(parameter, hint)
        allows_none = not required or _allows_none(hint) or hint is None or hint is type(None)
        is_class = isinstance(hint, type)

        def take(message: Message, _session: Session | None) -> object:
            value = converter.from_message(message, hint)
            if _is_empty(value):
                if allows_none:
                    return None
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
        parameter: inspect.Parameter,
        hint: Any,
        make_adapter: Callable[[Any], TypeAdapter[Any]] = TypeAdapter,
    ) -> Callable[[object], object]:
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


def _function(handler: Any) -> Any:
    """The function whose annotations count: below bound methods, partials and wrappers."""
    function = inspect.unwrap(handler)
    return getattr(function, "__func__", function)


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        bare, *extras = get_args(hint)
        return bare, tuple(extras)
    return hint, ()


def _allows_none(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def injection_marker(parameter: inspect.Parameter, hint: Any) -> InjectionMarker | None:
    """The `Provide[...]` of a parameter, in its annotation or as its default."""
    candidates = [*_split(hint)[1], parameter.default]
    return next((c for c in candidates if isinstance(c, _MARKER)), None)
