"""The typed getters, setters, reads and writes that messages have in common. (jms-api 6 and 7)"""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

from pyjms.jms.conversions import fit


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


class TypedGetters:
    """Gets values by name as a given JMS type.

    All raise MessageFormatException if JMS does not convert the value to the type, and ValueError
    if a text cannot be converted. The result for a missing value depends on the class.
    """

    __slots__ = ()

    @abstractmethod
    def _convert(self, name: str, target: str) -> object: ...

    def get_boolean(self, name: str) -> bool:
        """Return the value as a bool; False if it is missing."""
        return cast("bool", self._convert(name, "boolean"))

    def get_byte(self, name: str) -> int:
        """Return the value as an 8-bit integer."""
        return cast("int", self._convert(name, "byte"))

    def get_short(self, name: str) -> int:
        """Return the value as a 16-bit integer."""
        return cast("int", self._convert(name, "short"))

    def get_int(self, name: str) -> int:
        """Return the value as a 32-bit integer."""
        return cast("int", self._convert(name, "int"))

    def get_long(self, name: str) -> int:
        """Return the value as a 64-bit integer."""
        return cast("int", self._convert(name, "long"))

    def get_float(self, name: str) -> float:
        """Return the value as a 32-bit float."""
        return cast("float", self._convert(name, "float"))

    def get_double(self, name: str) -> float:
        """Return the value as a float."""
        return cast("float", self._convert(name, "double"))

    def get_string(self, name: str) -> str | None:
        """Return the value as text, with numbers in Java's format; None if it is missing."""
        return cast("str | None", self._convert(name, "String"))


class TypedReads:
    """Reads the next value of a body as a given JMS type.

    All raise MessageNotReadableException while the message is write-only and MessageEOFException
    at the end of the body. After an error the position is unchanged.
    """

    __slots__ = ()

    @abstractmethod
    def _read(self, target: str) -> object: ...

    @abstractmethod
    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes; None at the end."""

    def read_boolean(self) -> bool:
        """Read the next value as a boolean; of bytes, True if the byte is not zero."""
        return cast("bool", self._read("boolean"))

    def read_byte(self) -> int:
        """Read the next value as an 8-bit integer."""
        return cast("int", self._read("byte"))

    def read_short(self) -> int:
        """Read the next value as a 16-bit integer."""
        return cast("int", self._read("short"))

    def read_int(self) -> int:
        """Read the next value as a 32-bit integer."""
        return cast("int", self._read("int"))

    def read_long(self) -> int:
        """Read the next value as a 64-bit integer."""
        return cast("int", self._read("long"))

    def read_float(self) -> float:
        """Read the next value as a 32-bit float."""
        return cast("float", self._read("float"))

    def read_double(self) -> float:
        """Read the next value as a float."""
        return cast("float", self._read("double"))

    def read_bytes_into(self, buffer: bytearray | memoryview) -> int:
        """Read bytes into `buffer`; return the number of bytes, -1 at the end."""
        data = self.read_bytes(len(buffer))
        if data is None:
            return -1
        buffer[: len(data)] = data
        return len(data)


class TypedWrites:
    """Writes values of a given JMS type to the end of a body.

    All raise MessageNotWriteableException while the message is read-only and MessageFormatException
    if the value is not of the type.
    """

    __slots__ = ()

    @abstractmethod
    def _write(self, kind: str, value: object) -> None: ...

    def write_boolean(self, value: bool) -> None:
        """Write a boolean."""
        self._write("boolean", value)

    def write_byte(self, value: int) -> None:
        """Write a signed 8-bit integer."""
        self._write("byte", value)

    def write_short(self, value: int) -> None:
        """Write a signed 16-bit integer."""
        self._write("short", value)

    def write_int(self, value: int) -> None:
        """Write a signed 32-bit integer."""
        self._write("int", value)

    def write_long(self, value: int) -> None:
        """Write a signed 64-bit integer."""
        self._write("long", value)

    def write_float(self, value: float) -> None:
        """Write a 32-bit float; the value is rounded to it."""
        self._write("float", value)

    def write_double(self, value: float) -> None:
        """Write a double."""
        self._write("double", value)
