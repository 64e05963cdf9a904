"""Pydantic models as trees of Spark's types, and what has none."""

from __future__ import annotations

import enum
import re
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
)

from pyjms.errors import ConfigurationException
from pyjms.spark.schema import Array, Check, Scalar, java_pattern, model_type, raw_ddl, type_ddl


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Leg(BaseModel):
    carrier: str
    miles: int | None = None


class Everything(BaseModel):
    text: str
    whole: int
    real: float
    yes: bool
    money: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    exact: Decimal
    at: datetime
    day: date
    uid: UUID
    colour: Colour
    kind: Literal["a", "b", None]  # noqa: PYI061 - None among the choices
    number: Literal[1, 2] = 2
    leg: Leg
    legs: list[Leg] = []
    tags: set[str] = Field(default_factory=set)
    pair: tuple[int, ...]
    by_name: dict[str, float | None] = Field(default_factory=dict)
    maybe: str | None
    short: Annotated[str, Field(max_length=3, pattern="^[a-z]+$")] = "abc"
    key: int = Field(1, alias="the-key", ge=0, lt=9)


def test_every_type_there_is_one_for() -> None:
    struct = model_type(Everything)
    assert type_ddl(struct) == (
        "struct<`text`:string,`whole`:bigint,`real`:double,`yes`:boolean,`money`:decimal(9,2),"
        "`exact`:decimal(38,18),`at`:timestamp,`day`:date,`uid`:string,`colour`:string,"
        "`kind`:string,`number`:bigint,`leg`:struct<`carrier`:string,`miles`:bigint>,"
        "`legs`:array<struct<`carrier`:string,`miles`:bigint>>,`tags`:array<string>,"
        "`pair`:array<bigint>,`by_name`:map<string,double>,`maybe`:string,`short`:string,"
        "`key`:bigint>"
    )
    assert raw_ddl(struct).endswith("`maybe`:string,`short`:string,`the-key`:string>")
    fields = {field.name: field for field in struct.fields}
    optional = {name for name, field in fields.items() if not field.required}
    assert optional == {"kind", "number", "legs", "tags", "by_name", "maybe", "short", "key"}
    assert {name: field.default for name, field in fields.items() if field.default} == {
        "number": "2", "legs": "[]", "tags": "[]", "by_name": "{}", "short": '"abc"', "key": "1"
    }  # fmt: skip
    assert fields["key"].type == Scalar("bigint", (Check("ge", 0), Check("lt", 9)))
    assert fields["colour"].type == Scalar("string", (Check("in", ("r", "b")),))
    assert fields["short"].type == Scalar(
        "string", (Check("max_length", 3), Check("pattern", "^[a-z]+$"))
    )


class Wrong(BaseModel):
    anything: Any
    either: int | str
    clock: time
    raw: bytes
    pair: tuple[int, str]
    keys: dict[int, str]
    mixed: Literal["a", 1]
    checked: Annotated[int, AfterValidator(abs)]
    strict: int = Field(strict=True)
    several: int = Field(validation_alias=AliasChoices("a", "b"))
    made: int = Field(default_factory=lambda: 7)
    compiled: str = Field(pattern=re.compile("^abc$", re.IGNORECASE))
    flagged: str = Field(pattern="^(?i)abc$")
    digits: Decimal = Field(max_digits=5)
    few: set[int] = Field(min_length=2)
    chosen: Annotated[Literal["a"], AfterValidator(str.upper)]


def test_all_that_has_no_type_is_named_at_once() -> None:
    with pytest.raises(ConfigurationException) as caught:
        model_type(Wrong)
    text = str(caught.value)
    assert text.startswith("Schema Wrong: Wrong.anything: Any has no Spark type; write str, int")
    for sentence in (
        "Wrong.either has several types, but a column has one",
        "Wrong.clock: time has no Spark type",
        "Wrong.raw: bytes has no Spark type",
        "Wrong.pair: tuple has no Spark type",
        "Wrong.keys: dict has no Spark type",
        "Wrong.mixed: its values must be all texts, all booleans or all whole numbers",
        "Wrong.checked: Spark's reader cannot check AfterValidator",
        "Wrong.strict: Spark's reader cannot check Strict",
        "Wrong.several has several aliases; keep one",
        "Wrong.made has a default factory, which Spark cannot call; write a value, or None",
        "Wrong.compiled has a compiled pattern; write its text, without flags",
        "Wrong.flagged has a pattern that Spark cannot check: '(?i)abc$' may mean something else",
        "Wrong.digits has max_digits alone; add decimal_places",
        "Wrong.few is a set with a limit, but Spark counts duplicates",
        "Wrong.chosen: Spark's reader cannot check AfterValidator",
    ):
        assert sentence in text


class Node(BaseModel):
    children: list[Node]


class Validated(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def positive(cls, n: int) -> int:
        return abs(n)


class Numbers(RootModel[list[int]]):
    pass


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    dep_delay: int | None = Field(None, alias="depDelay")


class NotByAlias(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    dep_delay: int | None = Field(None, alias="depDelay")


class PythonsPatterns(BaseModel):
    model_config = ConfigDict(regex_engine="python-re", val_temporal_unit="seconds")
    code: str = Field(pattern="^abc$")


class Outer(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    inner: Closed


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Node, "Node.children\\[\\] contains itself"),
        (
            Validated,
            r"Validated has Python validators \(positive\), which Spark's reader cannot call",
        ),
        (Numbers, "Numbers is a RootModel, which has no columns"),
        (ByName, "by its alias only; remove populate_by_name, or the aliases"),
        (NotByAlias, "by its alias only; remove validate_by_name, validate_by_alias, or the"),
        (PythonsPatterns, "reader does not support regex_engine, val_temporal_unit; remove it"),
        (Outer, "Outer: Spark's reader does not support str_strip_whitespace"),
        (Outer, "Outer.inner forbids other keys, which is supported for the outermost model only"),
    ],
)
def test_a_model_that_needs_python_is_refused(model: type[BaseModel], sentence: str) -> None:
    with pytest.raises(ConfigurationException, match=sentence):
        model_type(model)


def test_a_closed_model_says_so() -> None:
    assert model_type(Closed).is_closed


class NoAliases(BaseModel):
    model_config = ConfigDict(populate_by_name=True, allow_inf_nan=False)
    real: float = float("inf")
    reals: list[float] = [float("nan"), 1.5]
    least: Annotated[float, Field(ge=0, allow_inf_nan=True)]
    money: Annotated[Decimal, Field(ge=0.1)]


def test_reals_have_no_nan_where_the_model_has_none() -> None:
    fields = {field.name: field for field in model_type(NoAliases).fields}
    finite = Scalar("double", (Check("finite", None),))
    assert fields["real"].type == finite
    assert fields["reals"].type == Array(finite, item_required=True)
    assert (fields["real"].default, fields["reals"].default) == ("Infinity", "[NaN,1.5]")
    assert fields["least"].type == Scalar("double", (Check("number", None), Check("ge", 0)))
    assert fields["money"].type == Scalar("decimal(38,18)", (Check("ge", Decimal("0.1")),))


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("^abc$", r"\Aabc\z"),
        (r"^(?P<n>a|b+?){2,3}\d$", r"\A(?:a|b+?){2,3}\d\z"),
        (r"(?<n>.)(?:\.)(x)", r"(?:[^\n])(?:\.)(?:x)"),
        (r"[^a-z\-\]\d_^-]\n", r"[^a-z\-\]\d\_\^\-]\x0A"),
        ("é /-]}", r"é\ \/\-\]\}"),
        ("[a-]", r"[a\-]"),
    ],
)
def test_a_pattern_in_the_words_of_java(pattern: str, java: str) -> None:
    assert java_pattern(pattern) == "(?U)" + java


@pytest.mark.parametrize(
    "pattern",
    ["[a&&b]", "[a--b]", "[a[b]]", "[[:alpha:]]", "a++", "[]a]", "(?i)a", r"\<a", r"\p{L}",
     r"\x41", r"\b{start}", "(?=a)", r"\Qa\E"],
)  # fmt: skip
def test_a_pattern_that_java_may_read_otherwise_is_none(pattern: str) -> None:
    with pytest.raises(ValueError, match="may mean something else in Java"):
        java_pattern(pattern)
