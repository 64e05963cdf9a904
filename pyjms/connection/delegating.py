"""Objects of a provider that delegate to others: a session's calls, attributes of any object."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import MessageListener, Session

__all__ = ["DelegatedAttribute", "DelegatingSession"]

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


class DelegatedAttribute(Generic[V]):
    """An attribute that is the one of the same name of the target.

    Args:
        target: returns the target of an object; it may raise.
        doc: the docstring.
        read_only: it cannot be set.
    """

    def __init__(
        self,
        target: Callable[[Any], Any],
        doc: str = "That of the target.",
        *,
        read_only: bool = False,
    ) -> None:
        self.__doc__ = doc
        self._target = target
        self._name = ""
        self._read_only = read_only

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> DelegatedAttribute[V]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> V: ...
    def __get__(self, instance: object | None, owner: type) -> DelegatedAttribute[V] | V:
        if instance is None:
            return self
        return cast("V", getattr(self._target(instance), self._name))

    def __set__(self, instance: object, value: V) -> None:
        if self._read_only:
            raise AttributeError(f"{self._name} of {type(instance).__name__} cannot be set")
        setattr(self._target(instance), self._name, value)


def _target_of(self: DelegatingSession) -> Session:
    return self._target()


def _delegated(
    function: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[DelegatingSession, P], R]:
    """Return the method, a coroutine method too, that calls the target's of the same name."""
    name = function.__name__

    def call(self: DelegatingSession, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = getattr(self._target(), name)(*args, **kwargs)
        return result

    call.__name__, call.__doc__ = name, function.__doc__
    call.__qualname__ = f"DelegatingSession.{name}"
    return call


class DelegatingSession(Session):
    """Delegates every call to `_target()`; the base of the cached session."""

    @abstractmethod
    def _target(self) -> Session:
        """Return the session to delegate to; raise if there is none any more."""

    transacted = DelegatedAttribute[bool](_target_of, read_only=True)
    acknowledge_mode = DelegatedAttribute[AcknowledgeMode](_target_of, read_only=True)
    message_listener = DelegatedAttribute[MessageListener | None](_target_of, read_only=True)

    set_message_listener = _delegated(Session.set_message_listener)
    create_queue = _delegated(Session.create_queue)
    create_topic = _delegated(Session.create_topic)
    create_message = _delegated(Session.create_message)
    create_text_message = _delegated(Session.create_text_message)
    create_bytes_message = _delegated(Session.create_bytes_message)
    create_map_message = _delegated(Session.create_map_message)
    create_stream_message = _delegated(Session.create_stream_message)
    create_object_message = _delegated(Session.create_object_message)
    create_temporary_queue = _delegated(Session.create_temporary_queue)
    create_temporary_topic = _delegated(Session.create_temporary_topic)
    delete_temporary = _delegated(Session.delete_temporary)
    create_producer = _delegated(Session.create_producer)
    create_consumer = _delegated(Session.create_consumer)
    create_pull_consumer = _delegated(Session.create_pull_consumer)
    create_durable_subscriber = _delegated(Session.create_durable_subscriber)
    create_browser = _delegated(Session.create_browser)
    unsubscribe = _delegated(Session.unsubscribe)
    commit = _delegated(Session.commit)
    rollback = _delegated(Session.rollback)
    recover = _delegated(Session.recover)
