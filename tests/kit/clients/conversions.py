"""What is written into properties and bodies, and how it is read: rows and columns of the traces."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import MessageFormatException
from pyjms.jms.message import MessageProperties
from pyjms.jms.types import Byte, Char, Float, Long, Short

VALUES: dict[str, object] = {
    "Boolean true": True,
    "Byte 7": Byte(7),
    "Short 300": Short(300),
    "Character c": Char("c"),
    "Integer 70000": 70000,
    "Long 5000000000": Long(5_000_000_000),
    "Float 1.5": Float(1.5),
    "Double 2.25": 2.25,
    "String 12": "12",
    "String abc": "abc",
    "byte[] [1,2]": b"\1\2",
}
KINDS = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes")
WRITTEN: dict[str, Callable[[MessageProperties], None]] = {
    "Boolean true": lambda p: p.set_boolean("x", True),
    "Byte 7": lambda p: p.set_byte("x", 7),
    "Short 300": lambda p: p.set_short("x", 300),
    "Integer 70000": lambda p: p.set_int("x", 70000),
    "Long 5000000000": lambda p: p.set_long("x", 5_000_000_000),
    "Float 1.5": lambda p: p.set_float("x", 1.5),
    "Double 2.25": lambda p: p.set_double("x", 2.25),
    "String 12": lambda p: p.set_string("x", "12"),
    "String true": lambda p: p.set_string("x", "true"),
    "String abc": lambda p: p.set_string("x", "abc"),
    "String 1.5": lambda p: p.set_string("x", "1.5"),
    "(property not set)": lambda p: None,
}
READ: dict[str, Callable[[MessageProperties], object]] = {
    "boolean": lambda p: p.get_boolean("x"),
    "byte": lambda p: p.get_byte("x"),
    "short": lambda p: p.get_short("x"),
    "int": lambda p: p.get_int("x"),
    "long": lambda p: p.get_long("x"),
    "float": lambda p: p.get_float("x"),
    "double": lambda p: p.get_double("x"),
    "String": lambda p: p.get_string("x"),
    "Object": lambda p: p.get_object("x"),
    "exists": lambda p: "x" in p,
}
ERRORS = {
    MessageFormatException: "!MessageFormatException",
    ValueError: "!NumberFormatException",
    TypeError: "!NullPointerException",
}


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except (MessageFormatException, ValueError, TypeError) as error:
        return ERRORS[type(error)]


def as_recorded(column: str, value: object) -> object:
    if column == "char" and isinstance(value, str) and not value.startswith("!"):
        return f"char:{value}"
    return f"bytes:{value.hex()}" if isinstance(value, bytes) else value
