"""The typed setters that message properties and map messages have in common. (jms-api 6 and 7)"""

from __future__ import annotations

from abc import abstractmethod

from pyjms.jms.conversions import fit

__all__ = ["TypedSetters"]


class TypedSetters:
    """Sets values by name with a given JMS type, in terms of `self[name] = value`."""

    __slots__ = ()

    @abstractmethod
    def __setitem__(self, name: str, value: object) -> None: ...

    def set_object(self, name: str, value: object) -> None:
        """Set a value of any type, as `self[name] = value` does."""
        self[name] = value

    def set_boolean(self, name: str, value: bool) -> None:
        """Set a boolean; all typed setters raise what `self[name] = value` raises."""
        self[name] = fit(value, "boolean")

    def set_byte(self, name: str, value: int) -> None:
        """Set an 8-bit integer."""
        self[name] = fit(value, "byte")

    def set_short(self, name: str, value: int) -> None:
        """Set a 16-bit integer."""
        self[name] = fit(value, "short")

    def set_int(self, name: str, value: int) -> None:
        """Set a 32-bit integer."""
        self[name] = fit(value, "int")

    def set_long(self, name: str, value: int) -> None:
        """Set a 64-bit integer."""
        self[name] = fit(value, "long")

    def set_float(self, name: str, value: float) -> None:
        """Set a 32-bit float; the value is rounded to it."""
        self[name] = fit(value, "float")

    def set_double(self, name: str, value: float) -> None:
        """Set a double."""
        self[name] = fit(value, "double")

    def set_string(self, name: str, value: str | None) -> None:
        """Set a string, or None."""
        self[name] = fit(value, "String")
