"""Pydantic models as trees of Spark's types, and what has none."""

from __future__ import annotations

import enum
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
from pyjms.spark.pipeline.models import model_type
from pyjms.spark.pipeline.types import Check, Scalar, raw_ddl, type_ddl


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


def test_all_that_has_no_type_is_named_at_once() -> None:
    with pytest.raises(ConfigurationException) as caught:
        model_type(Wrong)
    text = str(caught.value)
    assert text.startswith("Schema Wrong: Wrong.anything: Any has no Spark type; write str, int")
    for sentence in (
        "Wrong.either may be of several types, and a column has one",
        "Wrong.clock: time has no Spark type",
        "Wrong.raw: bytes has no Spark type",
        "Wrong.pair: tuple has no Spark type",
        "Wrong.keys: dict has no Spark type",
        "Wrong.mixed: the choices are neither all texts nor all whole numbers",
        "Wrong.checked: Spark's reader cannot check AfterValidator",
        "Wrong.strict: Spark's reader cannot check Strict",
        "Wrong.several has several aliases; write one",
        "Wrong.made has a default that Python makes; write a value, or None",
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


class Outer(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    inner: Closed


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Node, "Node.children\\[\\] holds itself"),
        (Validated, r"Validated has validators of Python \(positive\), which Spark's reader does"),
        (Numbers, "Numbers is a RootModel, which has no columns"),
        (Outer, "Outer: Spark's reader does not know str_strip_whitespace"),
        (Outer, "Outer.inner forbids other keys, which is checked for the outermost model only"),
    ],
)
def test_a_model_that_needs_python_is_refused(model: type[BaseModel], sentence: str) -> None:
    with pytest.raises(ConfigurationException, match=sentence):
        model_type(model)


def test_a_closed_model_says_so() -> None:
    assert model_type(Closed).is_closed
