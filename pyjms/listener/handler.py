"""Calling a handler: its arguments from the message, its result as the reply.

Theory of operation (spring-jms 6.1; decisions D16)
---------------------------------------------------

When a listener is created, each parameter of its handler is assigned a *supplier*, a function of
(message, session). The annotation or marker determines which one, in this order:

    1. `Provide[...]`, `Provider[...]`, `Closing[...]`   an object of the application's container,
                                                         the last with resources for this message
    2. `Header(...)`, `PayloadField(...)`                one header, one field of the payload
    3. `Headers()`                                       all headers and properties, as a dict
    4. type `Message` or a body class                    the raw message
    5. type `Session` (of pyjms, or of pyjms.aio with `async def`)
    6. supported by a custom argument resolver           what the resolver returns
    7. type `GenericMessage[T]`                          the payload as T, with all headers
    8. everything else                                   the payload, converted to its type

A marker (`Header`, `Headers`, `Payload`, `Provide[...]`) may be in the annotation or be the
default. At most one parameter without a marker may be the payload, whereas Spring passes it to
several: a second one is mostly a forgotten marker. All parameters that are marked with `Payload`
get it. Parameters marked with `PayloadField`, which `fields` does with all that could be the
payload, are validated together, as one pydantic model. A parameter with a plain default keeps the
default; only on a handler's first parameter, which is the payload, does a default replace an empty
body. Without an annotation, and for `object` and `Any`, the payload is passed as the converter
returns it (Spring passes the raw message to `Object`).

Everything that can be wrong with a handler is detected while its listener is made, before anything
connects: unreadable annotations, two payloads, types that pydantic does not know, unknown
providers. A call then only runs the suppliers and the handler, without inspection or look-ups by
name. Arguments are passed by position unless a parameter is keyword-only or injected, because
dependency-injector's `@inject` recognises injected arguments by name.

An `async def` handler is awaited on the loop; a `def` handler and its suppliers, conversion
included, run in the consumer's thread. Replies are sent on the loop. Every failure becomes a
ListenerExecutionFailedException, so that a JMSException raised by a handler is never mistaken for a
lost connection. An awaitable result is awaited first, whereas Spring passes futures to the
converter. (spring-jms 1.7.6, 6.1.8, 6.2.8)
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, Union, get_args, get_origin

from pydantic import (
    ConfigDict,
    Field,
    PydanticSchemaGenerationError,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    create_model,
)

from pyjms.errors import (
    ConfigurationException,
    JMSException,
    ListenerExecutionFailedException,
    MessageConversionException,
    Skip,
    UnreadableMessageException,
)
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.call_limits import CallTimeout
from pyjms.listener.decorators import MISSING, Header, Headers, Payload, PayloadField
from pyjms.listener.error_handling import called_exit
from pyjms.listener.reply import ReplySender
from pyjms.support.converter import MessageConverter
from pyjms.support.messaging import MESSAGE_ATTRIBUTES, GenericMessage
from pyjms.template.interceptors import (
    HandlerInterceptor,
    HandlerInvocation,
    InterceptorChain,
    chain_of,
)
from pyjms.template.workers import call_in_worker

InjectionMarker = Any
"""A `Provide[...]`, `Provider[...]` or `Closing[...]` of dependency-injector."""

_MARKER_TYPES = (Header, Headers, Payload, PayloadField)

_M = TypeVar("_M", Header, Headers, Payload, PayloadField)


class ArgumentResolver(Protocol):
    """Supplies custom handler parameters. Spring: a custom argument resolver."""

    def supports(self, parameter: HandlerParameter) -> bool:
        """Return whether it supplies this parameter; called once, when the handler is analysed."""
        ...

    def resolve(
        self, parameter: HandlerParameter, message: Message, session: Session | None
    ) -> object:
        """Return the argument for a message; called in the thread of a `def` handler."""
        ...


Injector = Callable[[InjectionMarker], Callable[[], object]]
"""Turns a `Provide[...]` into a function that supplies the object; raises if it is unknown."""

SessionTypes = Mapping[type, Callable[[Session], object]]
"""Annotations that request the session, and what is passed for each."""

Supplier = Callable[[Message, Session | None], object]

Around = Callable[[Message, Session, Callable[[], Awaitable[Any]]], Coroutine[Any, Any, Any]]
"""Gets the message (or batch), the session and the call of a handler; returns the result."""


class HandlerListener:
    """A listener, `async (message, session)`, that calls a handler and sends its result.

    Spring: MessagingMessageListenerAdapter.

    Raises:
        ConfigurationException: a parameter cannot be supplied, or its type is not known.
    """

    applies_timeout: ClassVar[bool] = True
    HAS_REPLIES: ClassVar[bool] = True

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        converter: MessageConverter,
        read_headers: Callable[[Message], Mapping[str, object]],
        injector: Injector | None = None,
        session_types: SessionTypes | None = None,
        resolvers: Sequence[ArgumentResolver] = (),
        fields: bool = False,
    ) -> None:
        self.handler = handler
        self.name: str = f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"
        self.is_coroutine: bool = inspect.iscoroutinefunction(handler)
        self.listener_id: str = ""
        self._replies: ReplySender | None = None
        self._replies_to_none = False
        self._timeout: CallTimeout | None = None
        self._chain: InterceptorChain[HandlerInterceptor] | None = None
        self._around: Around | None = None
        self._perform = self._call_and_reply
        self._converter = converter
        self._read_headers = read_headers
        self._injector = injector
        self._session_types = session_types or {Session: lambda session: session}
        self._resolvers = tuple(resolvers)
        parameters = self._read_parameters(handler)
        if fields:
            parameters = self._marked_as_fields(parameters)
        self._fields = _Fields.of(parameters, self)
        payload = choose_payload(parameters, self._is_not_payload, self.name)
        if payload is None and self._fields is not None:
            payload = self._fields.payload
        self.parameters: tuple[HandlerParameter, ...] = tuple(parameters)
        """The handler's parameters."""
        self.payload = payload
        """The parameter that gets the payload, or stands for its fields; None: there is none."""
        suppliers = self._suppliers_of(parameters, payload)
        self._by_name = any(p.injection is not None or p.is_keyword for p in parameters)
        self._names = tuple(suppliers)
        self._suppliers = tuple(suppliers.values())

    def attach(
        self,
        listener_id: str,
        replies: ReplySender,
        interceptors: Iterable[HandlerInterceptor],
        *,
        reply_none: bool = False,
        timeout: CallTimeout | None = None,
    ) -> None:
        """Set the id of the container's listener, what sends its replies, and its interceptors.

        With `reply_none`, a None is a reply, unless the handler is annotated to return nothing.
        `timeout` is the container's.
        """
        self.listener_id = listener_id
        self._replies = replies if self.HAS_REPLIES else None
        self._timeout = timeout
        self._replies_to_none = reply_none and not returns_nothing(self.handler)
        self._chain = chain_of(interceptors)

    def surround(self, around: Around) -> None:
        """Let `around` open and close what the handler needs for each message."""
        perform = self._call_and_reply
        self._around = around
        self._perform = lambda message, session: around(
            message, session, lambda: perform(message, session)
        )

    async def with_resources(
        self, message: Message, session: Session, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Return the result of `call()`, with what the handler needs for a message open."""
        return await (call() if self._around is None else self._around(message, session, call))

    async def __call__(self, message: Message, session: Session) -> None:
        """Handle one message.

        Raises:
            Skip: the handler raised it.
            ListenerExecutionFailedException: the handler or an interceptor raised (its cause), or
                the handler could not be called with this message, or its reply could not be sent.
        """
        try:
            if self._chain is None:
                await self._perform(message, session)
            else:
                await self._chain.around_handler(
                    self._invocation(message, session),
                    lambda: self._perform(message, session),
                )
        except Skip:
            raise
        except ListenerExecutionFailedException as error:
            error.listener_id = self.listener_id
            raise
        except Exception as error:
            raise ListenerExecutionFailedException(
                f"Listener method '{self.name}' threw exception",
                message=message,
                listener_id=self.listener_id,
            ) from error

    def _invocation(self, message: Message, session: Session) -> HandlerInvocation:
        return HandlerInvocation(self.handler, self.listener_id, message, session)

    async def _call_and_reply(self, message: Message, session: Session) -> Any:
        timeout = self._timeout
        try:
            if timeout is not None and timeout.seconds is not None:
                call = self.call
                result = await timeout.call(call, message, session, is_coroutine=self.is_coroutine)
            elif self.is_coroutine:
                result = await self.call(message, session)
            else:
                result = await call_in_worker(self.call, message, session)
            if result is not None and inspect.isawaitable(result):
                result = await result  # a wrapper around a coroutine, or a missing `await`
        except SystemExit as error:
            raise called_exit(error, message) from error
        if self._replies is not None and (result is not None or self._replies_to_none):
            await self._replies.send(result, message, session)
        return result

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

    def _marked_as_fields(self, parameters: list[HandlerParameter]) -> list[HandlerParameter]:
        """Mark the parameters that have no other source as fields of the payload."""
        found = [
            p
            if self._is_not_payload(p) or p.marker(Payload) is not None
            else replace(p, markers=(*p.markers, PayloadField()))
            for p in parameters
        ]
        if not any(p.marker(PayloadField) is not None for p in found):
            raise ConfigurationException(
                f"Handler {self.name}: fields=True has no effect: no parameter is a field",
                hint="name parameters after the fields of the payload, or omit fields",
            )
        return found

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
            raise ConfigurationException.join(problems)
        return suppliers

    def _is_not_payload(self, parameter: HandlerParameter) -> bool:
        """Return whether a parameter's marker or type excludes that it is the payload."""
        if parameter.injection is not None:
            return True
        marked = parameter.marker(Header) or parameter.marker(Headers)
        if marked is not None or parameter.marker(PayloadField) is not None:
            return True
        hint = parameter.hint
        if get_origin(hint) is GenericMessage or hint is GenericMessage:
            return True
        if self._resolver_of(parameter) is not None:
            return True
        return isinstance(hint, type) and (hint in self._session_types or issubclass(hint, Message))

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Supplier:
        if parameter.injection is not None:
            return self._service(parameter, parameter.injection)
        header = parameter.marker(Header)
        if header is not None:
            return self._header(parameter, header)
        if parameter.marker(Headers) is not None:
            return lambda message, _session: dict(self._read_headers(message))
        if parameter.marker(PayloadField) is not None:
            assert self._fields is not None
            return self._fields.supplier(parameter)
        if (resolver := self._resolver_of(parameter)) is not None:
            return lambda message, session: resolver.resolve(parameter, message, session)
        if get_origin(parameter.hint) is GenericMessage or parameter.hint is GenericMessage:
            return self._generic(parameter)
        if parameter is payload or parameter.marker(Payload) is not None:
            return self.payload_supplier(parameter)
        hint = parameter.hint
        if not self._is_not_payload(parameter):
            return lambda _message, _session: parameter.default
        convert_session = self._session_types.get(hint)
        if convert_session is not None:
            return lambda _message, session: None if session is None else convert_session(session)
        return self._raw(parameter, hint)

    def _service(self, parameter: HandlerParameter, marker: InjectionMarker) -> Supplier:
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

    def _resolver_of(self, parameter: HandlerParameter) -> ArgumentResolver | None:
        return next((r for r in self._resolvers if r.supports(parameter)), None)

    def _generic(self, parameter: HandlerParameter) -> Supplier:
        (hint,) = get_args(parameter.hint) or (Any,)
        payload = self.payload_supplier(replace(parameter.of_type(hint), default=MISSING))

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
        convert = self.validator(parameter, make_adapter=_adapter_of_instances)
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

    def payload_supplier(self, parameter: HandlerParameter) -> Supplier:
        """Return what supplies the payload, converted to the type of a parameter.

        Raises:
            ConfigurationException: the type is not known.
        """
        converter = self._converter
        hint = parameter.hint
        marker = parameter.marker(Payload)
        if hint in (Any, object, inspect.Parameter.empty):
            return lambda message, _session: converter.from_message(message)
        validate = self.validator(parameter)
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

    def validator(
        self,
        parameter: HandlerParameter,
        make_adapter: Callable[[Any], TypeAdapter[Any]] = TypeAdapter,
    ) -> Callable[[object], object]:
        """Return what converts a value to the type of a parameter, with its constraints."""
        hint = parameter.hint
        if hint in (Any, object):
            return lambda value: value
        try:
            adapter: TypeAdapter[Any] = make_adapter(parameter.validated_hint)
        except (PydanticUserError, TypeError, NameError) as error:
            raise ConfigurationException(
                f"Handler {self.name}: parameter {parameter.name!r} of type {hint!r} cannot be "
                f"supplied{_reason_of(error)}",
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


def _reason_of(error: Exception) -> str:
    """Return why there is no validation for a type; "" if pydantic does not know it at all."""
    if isinstance(error, PydanticSchemaGenerationError):
        return ""
    return f": {str(error).strip().splitlines()[0]}"


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


def _is_empty(value: object) -> bool:
    return value is None or value == b"" or (isinstance(value, str) and not value.strip())


@dataclass(frozen=True, slots=True)
class HandlerParameter:
    """One parameter; `default` is its plain default, MISSING if it has none or a marker."""

    name: str
    hint: Any
    markers: tuple[object, ...]
    default: object
    is_keyword: bool
    is_first: bool
    injection: InjectionMarker | None
    constraints: tuple[object, ...] = ()
    """The other arguments of its `Annotated`, for pydantic: `Field(gt=0)`."""

    @property
    def validated_hint(self) -> Any:
        """The type with the constraints."""
        hint = self.hint
        for constraint in self.constraints:
            hint = Annotated[hint, constraint]
        return hint

    def of_type(self, hint: Any) -> HandlerParameter:
        """Return the parameter for a value that it contains: type, markers and constraints."""
        bare, extras = split_annotation(hint)
        markers = tuple(extra for extra in extras if _is_marker(extra))
        constraints = tuple(extra for extra in extras if not _is_marker(extra))
        return replace(self, hint=bare, markers=(*self.markers, *markers), constraints=constraints)

    def marker(self, kind: type[_M]) -> _M | None:
        """Return the marker of this kind, or None; the class itself also counts as a marker."""
        for mark in self.markers:
            if isinstance(mark, kind):
                return mark
            if mark is kind:
                return kind()
        return None

    @property
    def keeps_default(self) -> bool:
        """Whether it keeps its default instead of becoming the payload."""
        return self.default is not MISSING and (self.is_keyword or not self.is_first)


def read_parameters(handler: Callable[..., Any], name: str) -> list[HandlerParameter]:
    """Return the handler's parameters, without `*args` and `**kwargs`."""
    try:
        signature = inspect.signature(handler)
        hints = typing.get_type_hints(_function(handler), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationException(
            f"Handler {name}: its annotations cannot be read: {error}",
            hint="the types of parameters must be known at module level",
        ) from error
    _refuse_what_gets_nothing(handler, signature, name)
    found = []
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        read = _read(parameter, hints.get(parameter.name, Any), is_first=number == 0)
        if any(read.hint is mark for mark in _MARKER_TYPES):
            mark = read.hint.__name__
            raise ConfigurationException(
                f"Handler {name}: {mark} is not a type for parameter {parameter.name!r}",
                hint=f"write {parameter.name}: Annotated[str, {mark}(...)]",
            )
        found.append(read)
    return found


def _refuse_what_gets_nothing(
    handler: Callable[..., Any], signature: inspect.Signature, name: str
) -> None:
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigurationException(
            f"Handler {name}: it is a generator, so calling it would not run it",
            hint="remove its `yield`; send several messages with the template, or return a list",
        )
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if kinds and kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise ConfigurationException(
            f"Handler {name}: it takes {signature} only, so its arguments are not known",
            hint="name its parameters; a decorator around it needs functools.wraps",
        )


def choose_payload(
    parameters: Iterable[HandlerParameter],
    is_not_payload: Callable[[HandlerParameter], bool],
    handler: str,
) -> HandlerParameter | None:
    """Return the first parameter that is the payload; None if there is none.

    `is_not_payload` returns whether a parameter's marker or type excludes that it is the payload.
    All parameters with the marker `Payload` get the payload.
    """
    candidates = [p for p in parameters if not is_not_payload(p)]
    marked = [p for p in candidates if p.marker(Payload) is not None]
    unmarked = [p for p in candidates if p.marker(Payload) is None and not p.keeps_default]
    if marked:  # then the first parameter keeps its default, like any other
        unmarked = [p for p in unmarked if p.default is MISSING]
    chosen = [*marked, *unmarked]
    if len(unmarked) > 1 or (marked and unmarked):
        first, second = chosen[:2]
        kind = "" if second.hint is Any else f" of type {second.hint!r}"
        raise ConfigurationException(
            f"Handler {handler}: parameter {second.name!r}{kind} cannot be supplied: "
            f"the payload is {first.name!r}",
            hint="mark it with Annotated[..., Header()], Headers() or Provide[...]; give it a "
            "default, which it keeps; or, if both are fields of a JSON object, set fields=True",
        )
    return chosen[0] if chosen else None


def returns_nothing(handler: Callable[..., Any]) -> bool:
    """Return whether a handler is annotated `-> None`."""
    return inspect.signature(handler).return_annotation in (None, type(None), "None")


class _Fields:
    """The parameters of a handler that are fields of the payload, validated as one model."""

    def __init__(self, parameters: Sequence[HandlerParameter], listener: HandlerListener) -> None:
        self._attributes = {p.name: f"field_{n}" for n, p in enumerate(parameters)}
        fields: dict[str, Any] = {}
        problems: list[ConfigurationException] = []
        for parameter in parameters:
            try:
                listener.validator(parameter)
            except ConfigurationException as error:
                problems.append(error)
            name = self._name(parameter)
            default = ... if parameter.default is MISSING else parameter.default
            hint = Any if parameter.hint is inspect.Parameter.empty else parameter.validated_hint
            fields[self._attributes[parameter.name]] = (hint, Field(default, alias=name))
        if problems:
            raise ConfigurationException.join(problems)
        model = create_model(f"the fields of {listener.name}", **fields)
        self.payload = HandlerParameter("payload", model, (), MISSING, False, False, None)
        """A parameter that would get all fields."""
        self._read = listener.payload_supplier(self.payload)
        self._last_field = parameters[-1].name
        self._latest: tuple[Message, object] | None = None

    @staticmethod
    def of(parameters: Iterable[HandlerParameter], listener: HandlerListener) -> _Fields | None:
        """Return the fields among the parameters; None: there is none."""
        marked = [p for p in parameters if p.marker(PayloadField) is not None]
        return _Fields(marked, listener) if marked else None

    def supplier(self, parameter: HandlerParameter) -> Supplier:
        """Return what supplies one field. The payload is converted once for all of them."""
        attribute, is_last = self._attributes[parameter.name], parameter.name == self._last_field

        def supply(message: Message, session: Session | None) -> object:
            latest = self._latest
            # several consumers may be here at once, each in its thread
            if latest is None or latest[0] is not message:
                latest = message, self._read(message, session)
            self._latest = None if is_last else latest
            return getattr(latest[1], attribute)

        return supply

    def _name(self, parameter: HandlerParameter) -> str:
        marker = parameter.marker(PayloadField)
        return parameter.name if marker is None or marker.name is None else marker.name


def injection_marker(parameter: inspect.Parameter, hint: Any) -> InjectionMarker | None:
    """Return the `Provide[...]` of a parameter, in its annotation or as its default, or None."""
    candidates = [*split_annotation(hint)[1], parameter.default]
    return next((c for c in candidates if _is_injection(c)), None)


def _is_injection(value: object) -> bool:
    # whoever wrote Provide[...] has imported its module, which takes long where FastAPI is
    # installed: dependency-injector then imports that, too
    wiring = sys.modules.get("dependency_injector.wiring")
    return wiring is not None and isinstance(value, vars(wiring)["_Marker"])


def allows_none(hint: Any) -> bool:
    """Return whether `hint` is a union that includes None."""
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


def _read(parameter: inspect.Parameter, hint: Any, *, is_first: bool) -> HandlerParameter:
    bare, extras = split_annotation(hint)
    default = MISSING if parameter.default is parameter.empty else parameter.default
    return HandlerParameter(
        parameter.name,
        bare,
        tuple(c for c in (*extras, default) if _is_marker(c)),
        MISSING if _is_marker(default) or _is_injection(default) else default,
        parameter.kind is parameter.KEYWORD_ONLY,
        is_first,
        injection_marker(parameter, hint),
        tuple(c for c in extras if not _is_marker(c) and not _is_injection(c)),
    )


def _is_marker(value: object) -> bool:
    # by identity: a default may be any object, even an array that compares element by element
    return isinstance(value, _MARKER_TYPES) or any(value is mark for mark in _MARKER_TYPES)


def _function(handler: Any) -> Any:
    """Return the function whose annotations count, unwrapping bound methods and wrappers."""
    function = inspect.unwrap(handler)
    return getattr(function, "__func__", function)


def split_annotation(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type of an annotation and the further arguments of `Annotated`."""
    if get_origin(hint) is Annotated:
        bare, *extras = get_args(hint)
        return bare, tuple(extras)
    return hint, ()
