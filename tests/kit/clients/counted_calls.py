"""A connection factory whose connections, sessions, consumers and producers record calls.

The recorded traces count the calls on a provider's objects by their Java names; here the provider
is a real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from pyjms.client.factory import ConnectionFactory

_KINDS = {
    "create_session": "Session",
    "create_consumer": "Consumer",
    "create_pull_consumer": "Consumer",
    "create_producer": "Producer",
}
"""What a method creates."""
_COUNTED = {
    "start", "stop", "close", "create_session", "create_queue", "create_consumer",
    "create_producer", "create_pull_consumer", "receive", "commit", "rollback",
}  # fmt: skip

OnReceive = Callable[[Any], Awaitable[object]]


class CountedFactory:
    """Counts the calls on `factory` and on all objects created by it."""

    def __init__(self, factory: ConnectionFactory) -> None:
        self._factory = factory
        self.calls: list[str] = []
        self.on_receive: OnReceive | None = None
        """Awaited with each message just before `receive` returns it."""

    async def create_connection(self) -> Any:
        self.calls.append("ConnectionFactory.createConnection")
        return _Counted("Connection", await self._factory.create_connection(), self)

    def count(self, *names: str) -> dict[str, int]:
        """Return how often each of these was called."""
        counts = Counter(call.partition("(")[0] for call in self.calls)
        return {name: counts[name] for name in names}


class _Counted:
    """An object of the provider."""

    def __init__(self, kind: str, target: Any, factory: CountedFactory) -> None:
        vars(self).update(_kind=kind, _target=target, _factory=factory)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name not in _COUNTED:
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            self._factory.calls.append(f"{self._kind}.{_java_call(name, *arguments, **options)}")
            result = value(*arguments, **options)
            return self._result(name, result) if isawaitable(result) else result

        return call

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    async def _result(self, name: str, awaitable: Awaitable[Any]) -> Any:
        result = await awaitable
        if name == "receive":
            if result is None:
                self._factory.calls.append("receive=null")
            elif self._factory.on_receive is not None:
                await self._factory.on_receive(result)
        kind = _KINDS.get(name)
        return result if kind is None else _Counted(kind, result, self._factory)


def _java_call(name: str, *arguments: Any, **options: Any) -> str:
    first, *rest = name.replace("_pull_", "_").split("_")  # of our templates, with a prefetch of 0
    java = first + "".join(map(str.capitalize, rest))
    return java + _session_arguments(*arguments, **options) if name == "create_session" else java


def _session_arguments(transacted: bool = False, acknowledge_mode: int = 1) -> str:
    return f"(transacted={str(transacted).lower()},ack={int(acknowledge_mode)})"
