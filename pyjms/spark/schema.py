"""The type tree of a message body, made from a pydantic model or from Spark's DDL.

A scalar is read as text and then converted, so that both JSON forms of a number (2 and "2") are
numbers. Needs no Spark. (spark-pipeline 6.2)

Pydantic models as a type tree.

Spark's reader cannot call validators written in Python, so a model that has some is rejected:
nothing is accepted that the model would reject. All problems of a model are reported at once.
(spark-pipeline 6.2)

Patterns, in the syntax of Rust's `regex`, are translated to Java's: only constructs with the same
meaning in both; all others are rejected. Needs no Spark.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, RootModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pyjms.errors import ConfigurationException

ARRAY_ITEM: Final = "[]"
"""What a path calls the items of a list, and the values of a map."""


@dataclass(frozen=True)
class Check:
    """A condition on a value: a name that `conversion` implements, and its bound."""

    name: str
    bound: Any


@dataclass(frozen=True)
class Scalar:
    """A single value, of a Spark type that texts are cast to."""

    ddl: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Native:
    """A type that Spark's JSON reader reads by itself."""

    ddl: str


@dataclass(frozen=True)
class Array:
    """A list."""

    item: Type
    item_required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Map:
    """A JSON object with arbitrary keys."""

    value: Type
    value_required: bool = False
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Field:
    """One key of a JSON object, and the column that it becomes."""

    name: str
    key: str
    type: Type
    required: bool
    default: str | None = None
    """The value for a missing key or null, as JSON."""


@dataclass(frozen=True)
class Struct:
    """A JSON object with these keys."""

    fields: tuple[Field, ...]
    is_closed: bool = False
    """Whether other keys are an error; supported for the outermost object only."""


Type: TypeAlias = Scalar | Native | Array | Map | Struct


def raw_ddl(kind: Type) -> str:
    """Return the Spark type for the JSON reader, in which all scalars are strings."""
    return _ddl(kind, is_raw=True)


def type_ddl(kind: Type) -> str:
    """Return the Spark type of the column that a pipeline's function gets."""
    return _ddl(kind, is_raw=False)


def quote_name(name: str) -> str:
    """Return a column's name quoted for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _ddl(kind: Type, *, is_raw: bool) -> str:
    """Return a type in Spark's notation; a raw struct has the keys of the body."""
    match kind:
        case Scalar(ddl):
            return "string" if is_raw else ddl
        case Native(ddl):
            return ddl
        case Array(item):
            return f"array<{_ddl(item, is_raw=is_raw)}>"
        case Map(value):
            return f"map<string,{_ddl(value, is_raw=is_raw)}>"
        case Struct(fields):
            parts = (
                f"{quote_name(f.key if is_raw else f.name)}:{_ddl(f.type, is_raw=is_raw)}"
                for f in fields
            )
            return f"struct<{','.join(parts)}>"


_UNICODE: Final = "(?U)"
"""Makes `\\d`, `\\w`, `\\s` and `\\b` match the same characters as in Rust."""
_CONTROLS: Final = {"n": "0A", "r": "0D", "t": "09", "f": "0C", "v": "0B", "a": "07"}
_MIXES: Final = ("&&", "--", "~~")
"""Set operations of Rust, inside brackets."""
_SIGN: Final = r"\\[nrtfva]|\\[!-/:;=?@\[-`{-~]"
"""An escape that stands for one character; `\\<` and `\\>` are word boundaries."""
_IN_BRACKETS: Final = rf"{_SIGN}|[^\\\[\]]"
_ITEM: Final = re.compile(
    rf"(?P<kind>\\[dDwWsS])|(?P<first>{_IN_BRACKETS})(?:-(?P<last>{_IN_BRACKETS}))?", re.DOTALL
)


def java_pattern(pattern: str) -> str:
    """Return a pattern that matches in Java what the given one matches in pydantic.

    Raises:
        ValueError: it cannot be translated safely; the text says from where on.
    """
    return _UNICODE + "".join(_parts(pattern))


def _parts(pattern: str) -> Iterator[str]:
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        made = found and _MADE[found.lastgroup or ""](found[0])
        if not found or made is None:
            raise ValueError(f"{pattern[position:]!r} may mean something else in Java")
        yield made
        position = found.end()


def _brackets(text: str) -> str | None:
    negated = text.startswith("[^")
    inside = text[2 if negated else 1 : -1]
    if any(mix in inside for mix in _MIXES):
        return None
    made = ""
    for item in _ITEM.finditer(inside):
        if item["kind"]:
            made += item["kind"]
        else:
            made += _literal(item["first"])
            made += f"-{_literal(item['last'])}" if item["last"] else ""
    return f"[{'^' if negated else ''}{made}]"


def _literal(text: str) -> str:
    if len(text) > 1 and text[1] in _CONTROLS:
        return rf"\x{_CONTROLS[text[1]]}"
    sign = text[-1]
    return f"\\{sign}" if sign.isascii() and not sign.isalnum() else sign


def _same(text: str) -> str:
    return text


_TOKENS: Final[tuple[tuple[str, str, Callable[[str], str | None]], ...]] = (
    ("group", r"\((?:\?:|\?P?<[A-Za-z_][A-Za-z0-9_]*>|(?!\?))", lambda _: "(?:"),
    ("between", r"[)|]", _same),
    ("start", r"\^", lambda _: r"\A"),
    ("end", r"\$", lambda _: r"\z"),
    ("any", r"\.", lambda _: r"[^\n]"),
    ("times", r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?![*+?{])", _same),
    ("kind", r"\\(?:[dDwWsS]|[bB](?!\{))", _same),
    ("brackets", rf"\[\^?(?:{_IN_BRACKETS}|\\[dDwWsS])+\]", _brackets),
    ("literal", rf"{_SIGN}|[^\\()\[{{*+?|^$.]", _literal),
)
_TOKEN: Final = re.compile("|".join(f"(?P<{n}>{text})" for n, text, _ in _TOKENS), re.DOTALL)
_MADE: Final = {name: make for name, _, make in _TOKENS}


_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = Check("pattern", f"^(?:{_HEX}{{32}}|{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}})$")
_SCALARS: Final[Mapping[Any, Scalar]] = {
    str: Scalar("string"),
    bool: Scalar("boolean"),
    int: Scalar("bigint"),
    datetime: Scalar("timestamp"),
    date: Scalar("date"),
    UUID: Scalar("string", (_UUID,)),
}
_LISTS: Final = (list, set, frozenset, Sequence, Iterable)
_LIMITS: Final = ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern")
_NUMBER_LIMITS: Final = ("max_digits", "decimal_places", "allow_inf_nan")
_HARMLESS: Final = ("PlainSerializer", "WrapSerializer", "WithJsonSchema", "Doc")
_SCHEMA_METHOD: Final = "__get_pydantic_core_schema__"
_CONFIG: Final = (
    "strict",
    "str_strip_whitespace",
    "str_to_lower",
    "str_to_upper",
    "str_min_length",
    "str_max_length",
)
"""Model settings that Spark's reader does not support."""
_SUPPORTED_VALUES: Final[Mapping[str, Any]] = {
    "regex_engine": "rust-regex",
    "val_temporal_unit": "infer",
}
"""Model settings of which Spark's reader supports one value only."""
_BY_NAME: Final[Mapping[str, bool]] = {
    "populate_by_name": True, "validate_by_name": True, "validate_by_alias": False
}  # fmt: skip
_JSON: Final = TypeAdapter[Any](Any, config=ConfigDict(ser_json_inf_nan="constants"))
_LOWER_BOUNDS: Final = ("gt", "ge")
_MAX_DIGITS: Final = 38
_DEFAULT_PLACES: Final = 18
_NO_TYPE: Final = "has no Spark type; write str, int, float, bool, Decimal, datetime, date, UUID, \
an Enum, a Literal, a list, a dict with str keys, or another model"


def model_type(model: type[BaseModel]) -> Struct:
    """Return the fields of a model as columns.

    A missing key and null are the same to Spark: both give the default, or null if the field may be
    None, or an invalid message. A number or boolean is accepted as a text, too.

    Raises:
        ConfigurationException: a part of it has no Spark type, or needs Python code to check.
    """
    reader = _ModelReader()
    struct = reader.struct(model, model.__name__, ())
    if reader.problems:
        raise ConfigurationException(f"Schema {model.__name__}: {'; '.join(reader.problems)}")
    return struct


class _ModelReader:
    """Reads one model, and collects its problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._is_finite = False

    def struct(self, model: type[BaseModel], path: str, outer: tuple[type, ...]) -> Struct:
        if model in outer:
            self.problems.append(f"{path} contains itself, which Spark's types cannot")
            return Struct(())
        if issubclass(model, RootModel):
            self.problems.append(f"{path} is a RootModel, which has no columns; use a BaseModel")
            return Struct(())
        self._validators(model, path)
        is_closed = model.model_config.get("extra") == "forbid"
        if is_closed and outer:
            self.problems.append(
                f"{path} forbids other keys, which is supported for the outermost model only; "
                "remove extra='forbid'"
            )
        self._config(model, path)
        below = (*outer, model)
        outer_is_finite, self._is_finite = (
            self._is_finite,
            model.model_config.get("allow_inf_nan") is False,
        )
        fields = tuple(
            self._field(name, info, f"{path}.{name}", below)
            for name, info in model.model_fields.items()
        )
        self._is_finite = outer_is_finite
        return Struct(fields, is_closed)

    def _config(self, model: type[BaseModel], path: str) -> None:
        config = model.model_config
        unsupported = [name for name in _CONFIG if config.get(name)]
        unsupported += [
            name for name, known in _SUPPORTED_VALUES.items() if config.get(name, known) != known
        ]
        if unsupported:
            self.problems.append(
                f"{path}: Spark's reader does not support {', '.join(unsupported)}; remove it"
            )
        by_name = [name for name, value in _BY_NAME.items() if config.get(name) is value]
        if by_name and any(_key(name, info) != name for name, info in model.model_fields.items()):
            self.problems.append(
                f"{path}: Spark's reader accepts a field by its alias only; remove "
                f"{', '.join(by_name)}, or the aliases"
            )

    def _validators(self, model: type[BaseModel], path: str) -> None:
        decorators = model.__pydantic_decorators__
        found = [
            *decorators.field_validators,
            *decorators.validators,
            *decorators.model_validators,
            *decorators.root_validators,
        ]
        if found:
            self.problems.append(
                f"{path} has Python validators ({', '.join(found)}), which Spark's reader cannot "
                "call; use a model without them, and validate in the pipeline's function"
            )

    def _field(self, name: str, info: FieldInfo, path: str, outer: tuple[type, ...]) -> Field:
        key = _key(name, info)
        if not isinstance(key, str):
            self.problems.append(f"{path} has several aliases; keep one")
            key = name
        kind, is_optional = self._type(info.annotation, tuple(info.metadata), path, outer)
        default = self._default(info, path)
        required = info.is_required() and not is_optional
        return Field(name, key, kind, required, default)

    def _default(self, info: FieldInfo, path: str) -> str | None:
        value = info.default
        if info.default_factory is not None:
            if info.default_factory not in (*_LISTS, dict, tuple):
                self.problems.append(
                    f"{path} has a default factory, which Spark cannot call; write a value, or None"
                )
                return None
            value = () if info.default_factory is not dict else {}
        if value is PydanticUndefined or value is None:
            return None
        try:
            return _JSON.dump_json(value, by_alias=True).decode()
        except (PydanticSchemaGenerationError, ValueError, TypeError):
            self.problems.append(f"{path} has a default that is not JSON; write None")
            return None

    def _type(
        self, annotation: Any, metadata: tuple[Any, ...], path: str, outer: tuple[type, ...]
    ) -> tuple[Type, bool]:
        """Return a type, and whether it includes None."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._type(arguments[0], (*metadata, *arguments[1:]), path, outer)
        if origin in (Union, types.UnionType):
            others = [one for one in arguments if one is not type(None)]
            if len(others) == 1:
                kind, _ = self._type(others[0], metadata, path, outer)
                return kind, len(others) < len(arguments)
            self.problems.append(
                f"{path} has several types, but a column has one; write one of them"
            )
            return Scalar("string"), False
        checks, of_numbers = self._limits(metadata, path)
        if origin is Literal:
            return self._choices(list(arguments), checks, path)
        if annotation is Decimal:
            return self._decimal(of_numbers, checks, path), False
        if annotation is float:
            return Scalar("double", (*self._of_real(of_numbers, checks), *checks)), False
        scalar = _SCALARS.get(annotation) if _is_hashable(annotation) else None
        if scalar is not None:
            return Scalar(scalar.ddl, (*scalar.checks, *checks)), False
        return self._compose(annotation, origin, arguments, checks, path, outer), False

    def _compose(
        self,
        annotation: Any,
        origin: Any,
        arguments: tuple[Any, ...],
        checks: tuple[Check, ...],
        path: str,
        outer: tuple[type, ...],
    ) -> Type:
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return self._choices([member.value for member in annotation], checks, path)[0]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.struct(annotation, path, outer)
        is_tuple = origin is tuple and len(arguments) == 2 and arguments[1] is ...
        if (origin in _LISTS and arguments) or is_tuple:
            if checks and origin in (set, frozenset):
                self.problems.append(
                    f"{path} is a set with a limit, but Spark counts duplicates; write a list, or "
                    "remove the limit"
                )
            item, is_optional = self._type(arguments[0], (), f"{path}[]", outer)
            return Array(item, not is_optional, checks)
        if origin in (dict, Mapping) and arguments[0] is str:
            value, is_optional = self._type(arguments[1], (), f"{path}[]", outer)
            return Map(value, not is_optional, checks)
        name = getattr(annotation, "__name__", None) or str(annotation)
        self.problems.append(f"{path}: {name} {_NO_TYPE}")
        return Scalar("string")

    def _decimal(self, digits: Mapping[str, int], checks: tuple[Check, ...], path: str) -> Scalar:
        """Return the decimal type for the number of digits, with its limits as decimals."""
        places = digits.get("decimal_places", _DEFAULT_PLACES)
        most = digits.get("max_digits", _MAX_DIGITS)
        if "max_digits" in digits and "decimal_places" not in digits:
            self.problems.append(f"{path} has max_digits alone; add decimal_places")
        ddl = f"decimal({min(most, _MAX_DIGITS)},{min(places, most, _MAX_DIGITS)})"
        exact = (
            Check(one.name, Decimal(str(one.bound)) if isinstance(one.bound, float) else one.bound)
            for one in checks
        )
        return Scalar(ddl, tuple(exact))

    def _of_real(self, given: Mapping[str, Any], checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """Return additional checks of a float; to Spark, NaN is greater than any number."""
        if given.get("allow_inf_nan", not self._is_finite) is False:
            return (Check("finite", None),)
        has_least = any(check.name in _LOWER_BOUNDS for check in checks)
        return (Check("number", None),) if has_least else ()

    def _choices(
        self, values: list[Any], checks: tuple[Check, ...], path: str
    ) -> tuple[Type, bool]:
        """Return the type of a fixed set of values: texts, booleans or whole numbers."""
        values = [value.value if isinstance(value, enum.Enum) else value for value in values]
        known = [value for value in values if value is not None]
        for kind, ddl in ((str, "string"), (bool, "boolean"), (int, "bigint")):
            if known and all(type(value) is kind for value in known):
                return Scalar(ddl, (Check("in", tuple(known)), *checks)), len(known) < len(values)
        self.problems.append(
            f"{path}: its values must be all texts, all booleans or all whole numbers"
        )
        return Scalar("string"), False

    def _limits(
        self, metadata: tuple[Any, ...], path: str
    ) -> tuple[tuple[Check, ...], dict[str, Any]]:
        checks: list[Check] = []
        of_numbers: dict[str, Any] = {}
        for item in _flat(metadata):
            given = {key: value for key, value in _attributes(item).items() if value is not None}
            checks += [Check(name, given[name]) for name in _LIMITS if name in given]
            of_numbers |= {name: given[name] for name in _NUMBER_LIMITS if name in given}
            self._pattern(given.get("pattern", ""), path)
            unknown = [name for name in given if name not in _LIMITS + _NUMBER_LIMITS]
            if unknown or not given:
                name = type(item).__name__
                what = ", ".join(unknown) if name.startswith("_") else name
                self.problems.append(
                    f"{path}: Spark's reader cannot check {what}; remove it, and check it in the "
                    "pipeline's function"
                )
        return tuple(checks), of_numbers

    def _pattern(self, pattern: object, path: str) -> None:
        if not isinstance(pattern, str):
            self.problems.append(f"{path} has a compiled pattern; write its text, without flags")
            return
        try:
            java_pattern(pattern)
        except ValueError as error:
            self.problems.append(f"{path} has a pattern that Spark cannot check: {error}")


def _key(name: str, info: FieldInfo) -> Any:
    return info.validation_alias or info.alias or name


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield the constraints in the metadata of a type; pydantic ignores other metadata, too."""
    for item in metadata:
        package = type(item).__module__.partition(".")[0]
        is_rule = package in {"pydantic", "annotated_types"} or hasattr(item, _SCHEMA_METHOD)
        if isinstance(item, FieldInfo):
            yield from _flat(item.metadata)
        elif is_rule and type(item).__name__ not in _HARMLESS:
            yield item


def _attributes(item: object) -> dict[str, Any]:
    """Return the attributes of a constraint of pydantic or annotated_types."""
    slots = getattr(item, "__dataclass_fields__", None)
    if slots is not None:
        return {name: getattr(item, name) for name in slots}
    return dict(getattr(item, "__dict__", {}))


def _is_hashable(annotation: object) -> bool:
    return getattr(annotation, "__hash__", None) is not None
