"""One object for each of the additional brokers (`brokers` in the settings), by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from pyjms.errors import nearest_name

__all__ = ["ByBroker", "unknown_broker"]

T = TypeVar("T")


class ByBroker(Mapping[str, T]):
    """A mapping from the names of `brokers` to objects, each created when it is first requested.

    So a broker whose settings are wrong affects only the objects that use that broker. Use it on
    the loop, or before the loop runs.
    """

    def __init__(self, names: Iterable[str], create: Callable[[str], T]) -> None:
        self._names = tuple(names)
        self._create = create
        self._created: dict[str, T] = {}

    @property
    def created(self) -> tuple[T, ...]:
        """The objects that have been requested."""
        return tuple(self._created.values())

    def __getitem__(self, name: str) -> T:
        """Return the object of this broker.

        Raises:
            KeyError: `brokers` has no such name.
            ConfigurationException: the broker's settings cannot work.
        """
        if name not in self._created:
            if name not in self._names:
                raise KeyError(unknown_broker(name, self._names))
            self._created[name] = self._create(name)
        return self._created[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)


def unknown_broker(name: str, known: Iterable[str]) -> str:
    """Return the text for a name that `brokers` does not have."""
    known = tuple(known)
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near else f"it has {', '.join(known) or 'none'}"
    return f"`brokers` has no {name!r}; {hint}"
