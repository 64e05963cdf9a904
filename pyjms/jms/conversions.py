"""The type conversions of JMS: which types may be read as which others, and numbers in text.

The names of types are those of JMS: boolean, byte, short, char, int, long, float, double, String,
bytes. Python's `int` is an int or, beyond 32 bits, a long; `float` is a double. (jms-api 6.3 to
6.5, 7.7, 7.8) Numbers are formatted and parsed as Java does. (java.lang valueOf and toString)
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from pyjms.errors import MessageFormatException
from pyjms.jms.types import Byte, Char, Float, Long, Short

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_SPECIAL = re.compile(r"([+-]?)(NaN|Infinity)")

# Java formats doubles of this range without an exponent.
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


def parse_integer(text: str, low: int, high: int) -> int:
    """Parse an integer as Integer.valueOf does."""
    if not _INTEGER.fullmatch(text) or not low <= (value := int(text)) <= high:
        raise ValueError(f"{text!r} is not an integer from {low} to {high}")
    return value


def parse_float(text: str) -> float:
    """Parse a double as Double.valueOf does."""
    bare = text.strip()
    if special := _SPECIAL.fullmatch(bare):
        return -math.inf if special[0] == "-Infinity" else float(special[2])
    if bare[-1:] in "fFdD":
        bare = bare[:-1]
    if _DECIMAL.fullmatch(bare):
        return float(bare)
    if _HEXADECIMAL.fullmatch(bare):
        return float.fromhex(bare)
    raise ValueError(f"{text!r} is not a number")


def parse_float32(text: str) -> float:
    """Parse a 32-bit float; it is returned as the double with the same value."""
    return float32(parse_float(text))


def float32(value: float) -> float:
    """Return `value` rounded to 32 bits; infinite if it is too large, as in Java."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float_text(value: float, *, single: bool = False) -> str:
    """Return Double.toString(value), or Float.toString with `single`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    if not single and _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return float.__repr__(value)  # the same digits, and here without an exponent, too
    digits = Decimal(_shortest32(value) if single else repr(float(value)))
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        text = format(digits, "f")
        return text if "." in text else f"{text}.0"
    sign, mantissa, _ = digits.normalize().as_tuple()
    fraction = "".join(map(str, mantissa[1:])) or "0"
    return f"{'-' if sign else ''}{mantissa[0]}.{fraction}E{digits.adjusted()}"


def _shortest32(value: float) -> str:
    for precision in range(1, 9):
        text = f"{value:.{precision}g}"
        if float32(float(text)) == value:
            return text
    return f"{value:.9g}"


def value_text(value: object) -> str:
    """Return a boolean, number or text as Java's toString does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value, single=isinstance(value, Float))
    return str(value)


INTEGER_RANGES: Final[dict[str, tuple[int, int]]] = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}

PROPERTY_READS: Final[dict[str, frozenset[str]]] = {
    written: frozenset(read.split())
    for written, read in {
        "boolean": "boolean String",
        "byte": "byte short int long String",
        "short": "short int long String",
        "char": "char String",  # ActiveMQ's extension
        "int": "int long String",
        "long": "long String",
        "float": "float double String",
        "double": "double String",
        "String": "boolean byte short int long float double String",
    }.items()
}
"""For each type of a property, the types as which it may be read."""

BODY_READS: Final[dict[str, frozenset[str]]] = {**PROPERTY_READS, "bytes": frozenset({"bytes"})}
"""The same for the values of MapMessage and StreamMessage."""

NULLS: Final[dict[str, object]] = {
    "boolean": False,
    "byte": ValueError,
    "short": ValueError,
    "char": TypeError,
    "int": ValueError,
    "long": ValueError,
    "float": TypeError,
    "double": TypeError,
    "String": None,
    "bytes": None,
}
"""For each type, the result of reading None or a missing property: a value, or an error."""

MAP_NULLS: Final[dict[str, object]] = {
    **NULLS,
    **dict.fromkeys(("byte", "short", "int", "long"), 0),
    **dict.fromkeys(("float", "double"), 0.0),
}
"""The same for a MapMessage, where ActiveMQ is more lenient than JMS."""

_TYPES: Final[dict[type, str]] = {
    bool: "boolean",
    Byte: "byte",
    Short: "short",
    Char: "char",
    int: "int",
    Long: "long",
    Float: "float",
    float: "double",
    str: "String",
    bytes: "bytes",
}

_FROM_TEXT: Final[dict[str, Callable[[str], object]]] = {
    "boolean": lambda text: text.lower() == "true",
    "byte": lambda text: parse_integer(text, *INTEGER_RANGES["byte"]),
    "short": lambda text: parse_integer(text, *INTEGER_RANGES["short"]),
    "int": lambda text: parse_integer(text, *INTEGER_RANGES["int"]),
    "long": lambda text: parse_integer(text, *INTEGER_RANGES["long"]),
    "float": parse_float32,
    "double": parse_float,
    "String": str,
}


def type_of(value: object) -> str:
    """Return the JMS type of a normalized `value`; "" for None, a list or a dict."""
    kind = _TYPES.get(type(value), "")
    if kind == "int" and not -(2**31) <= value < 2**31:  # type: ignore[operator]
        return "long"
    return kind


def convert(
    value: object, target: str, reads: Mapping[str, frozenset[str]], nulls: Mapping[str, object]
) -> object:
    """Return `value` converted to the JMS type `target`.

    Raises:
        MessageFormatException: the table `reads` does not allow it.
        ValueError: a text is not such a number, or `value` is None and `nulls` has ValueError.
        TypeError: `value` is None and `nulls` has TypeError.
    """
    if value is None:
        return _null(target, nulls)
    kind = type_of(value)
    if target not in reads.get(kind, ()):
        raise MessageFormatException(
            f"A value of type {kind or type(value).__name__} cannot be read as {target}",
            hint="read it as the type it was written as, or as a wider one",
        )
    if kind == "String":
        return _FROM_TEXT[target](str(value))
    if target == "String":
        return value_text(value)
    return _plain(value)


def fit(value: object, target: str) -> object:
    """Return `value` as the Python type of the JMS type `target`, for a typed write."""
    fitted = _FITTERS[target](value)
    if fitted is _UNFIT:
        quoted = type(value).__name__ if isinstance(value, str | bytes) else repr(value)
        raise MessageFormatException(f"{quoted} is not a value of type {target}")
    return fitted


def fit_bytes(value: object, offset: int, length: int | None) -> object:
    """Return `length` bytes of `value` from `offset` (None: up to the end), checked like `fit`."""
    data = fit(value, "bytes")
    if isinstance(data, bytes):
        return data[offset:] if length is None else data[offset : offset + length]
    return data


def normalize_named(what: str, name: str, value: object, *, binary: bool) -> object:
    """Normalize the value `name` of a message; errors name it as `what` `name`."""
    if not isinstance(name, str):
        raise MessageFormatException(
            f"The name of {what} must be a str, not {name!r:.50} ({_class_name(name)})"
        )
    try:
        return normalize(value, binary=binary)
    except MessageFormatException as error:
        raise MessageFormatException(
            f"{what.removeprefix('a ').capitalize()} {name!r:.100}: {error.reason}", hint=error.hint
        ) from None


def normalize(value: object, *, binary: bool, containers: bool = True) -> object:
    """Return `value` in the form in which an untyped write stores it.

    Bytes are accepted if `binary`, lists and mappings (ActiveMQ's extension) if `containers`; they
    are copied deeply.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is float:
        return value
    if kind is not bytes and kind in _TYPES:
        return fit(value, type_of(value)) if kind is not int else _integer(value)
    return _normalize_other(value, binary=binary, containers=containers)


def _normalize_other(value: object, *, binary: bool, containers: bool) -> object:
    if isinstance(value, bytes | bytearray | memoryview) and binary:
        return bytes(value)
    if isinstance(value, Mapping) and containers:
        return {
            _name(key): normalize(item, binary=True, containers=True) for key, item in value.items()
        }
    if isinstance(value, list | tuple) and containers:
        return [normalize(item, binary=True, containers=True) for item in value]
    for base in (bool, int, float, str):  # an IntEnum, a StrEnum
        if isinstance(value, base):
            return normalize(base(value), binary=binary)
    raise MessageFormatException(
        f"a value of class {_class_name(value)} has no JMS type",
        hint="convert it to a bool, int, float or str, or in bodies to bytes; or send it as a "
        "payload: convert_and_send writes models, dataclasses and dates as JSON",
    )


def _class_name(value: object) -> str:
    kind = type(value)
    home = "" if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}."
    return f"{home}{kind.__qualname__}"


def _name(key: object) -> str:
    if isinstance(key, str):
        return key
    raise MessageFormatException(f"The name of a value must be a str, not {type(key).__name__}")


def _integer(value: object) -> object:
    assert isinstance(value, int)
    low, high = INTEGER_RANGES["long"]
    if low <= value <= high:
        return value
    raise MessageFormatException(f"{value} needs more than 64 bits")


def _fit_integer(target: str) -> Callable[[object], object]:
    low, high = INTEGER_RANGES[target]
    make = {"byte": Byte, "short": Short, "int": int, "long": Long}[target]

    def fit_integer(value: object) -> object:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return make(value) if whole and low <= value <= high else _UNFIT  # type: ignore[operator]

    return fit_integer


def _fit_double(value: object) -> object:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real else _UNFIT  # type: ignore[arg-type]


def _fit_float(value: object) -> object:
    double = _fit_double(value)
    return Float(float32(double)) if isinstance(double, float) else _UNFIT


def _fit_boolean(value: object) -> object:
    return value if isinstance(value, bool) else _UNFIT


def _fit_char(value: object) -> object:
    fits = isinstance(value, str) and len(value) == 1 and value <= "\uffff"
    return Char(value) if fits else _UNFIT


def _fit_text(value: object) -> object:
    if value is None:
        return None
    return str(value) if isinstance(value, str) else _UNFIT


def _fit_bytes(value: object) -> object:
    if value is None:
        return None
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _UNFIT


_UNFIT: Final = object()

_FITTERS: Final[dict[str, Callable[[object], object]]] = {
    "boolean": _fit_boolean,
    "byte": _fit_integer("byte"),
    "short": _fit_integer("short"),
    "char": _fit_char,
    "int": _fit_integer("int"),
    "long": _fit_integer("long"),
    "float": _fit_float,
    "double": _fit_double,
    "String": _fit_text,
    "bytes": _fit_bytes,
}


def _null(target: str, nulls: Mapping[str, object]) -> object:
    result = nulls[target]
    if isinstance(result, type) and issubclass(result, Exception):
        raise result(f"There is no value to read as {target}")
    return result


def _plain(value: object) -> object:
    """Return a plain Python value, as typed reads do not return the classes of `types`."""
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return base(value)
    return value
