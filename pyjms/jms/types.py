"""The number types of JMS that Python does not distinguish.

A plain `int` is a Java int, or a long if it needs more than 32 bits; a plain `float` is a double.
These subclasses represent the other types between the wire format and the conversion tables, and
behave like plain numbers.
"""

from __future__ import annotations


class Byte(int):
    """A signed 8-bit integer."""

    __slots__ = ()


class Short(int):
    """A signed 16-bit integer."""

    __slots__ = ()


class Long(int):
    """A signed 64-bit integer."""

    __slots__ = ()


class Float(float):
    """A 32-bit float, kept as the double with the same value."""

    __slots__ = ()


class Char(str):
    """One UTF-16 code unit."""

    __slots__ = ()
