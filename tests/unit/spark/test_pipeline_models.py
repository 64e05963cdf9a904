"""Bodies by a schema, as the source's processes read them: what pydantic says, in Spark's types."""

from __future__ import annotations

import enum
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    field_validator,
    model_validator,
)
from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    VariantVal,
)

from pyjms.errors import ConfigurationException
from pyjms.spark.formats import with_models
from pyjms.spark.options import BODY_SCHEMA
from pyjms.spark.schema import (
    BodyReader,
    body_reader,
    ddl_model,
    encode_schema,
    model_columns,
    struct_of,
)

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
Body = str | bytes | None | tuple[str, bytes]
"""A text, data, or the kind of body and its data."""


def judge(
    schema: type[BaseModel] | StructType, *bodies: Body, is_quiet: bool = False
) -> tuple[list[Any], list[str | None]]:
    """Return the values of the valid bodies and the reasons of the others, in their order."""
    model = None if isinstance(schema, StructType) else schema
    columns = struct_of(model_columns(model)) if model else schema
    assert isinstance(columns, StructType)
    reader = BodyReader(encode_schema(columns, model, is_quiet=is_quiet))
    rows = [row for batch in reader.read([texts(*bodies)]) for row in batch.to_pylist()]
    assert all((row["pyjms_value"] is None) == (row["pyjms_reason"] is not None) for row in rows)
    valid = [row["pyjms_value"] for row in rows if row["pyjms_reason"] is None]
    return valid, [row["pyjms_reason"] for row in rows if row["pyjms_reason"] is not None]


def texts(*bodies: Body) -> pa.RecordBatch:
    """Return bodies as the columns of messages that hold them."""
    kinds = [body[0] if isinstance(body, tuple) else "text" for body in bodies]
    data = [body[1] if isinstance(body, tuple) else body for body in bodies]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([one if isinstance(one, str) else None for one in data], pa.string()),
            pa.array([one if isinstance(one, bytes) else None for one in data], pa.binary()),
            pa.array(kinds, pa.string()),
        ],
        ["text", "bytes", "body_kind"],
    )


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
    at: datetime
    day: date
    uid: UUID
    colour: Colour
    kind: Literal["a", "b", None]  # noqa: PYI061 - None among the choices
    leg: Leg
    raw: bytes
    legs: list[Leg] = []
    tags: set[str] = Field(default_factory=set)
    pair: tuple[int, ...] = ()
    by_name: dict[str, float | None] = Field(default_factory=dict)
    maybe: str | None = None
    key: int = Field(1, alias="the-key", ge=0, lt=9)
    made: int = Field(default_factory=lambda: 7)
    several: int = Field(0, validation_alias=AliasChoices("a", "b"))


def test_every_type_is_a_column() -> None:
    assert struct_of(model_columns(Everything)).simpleString() == (
        "struct<text:string,whole:bigint,real:double,yes:boolean,money:decimal(38,18),"
        "at:timestamp,day:date,uid:string,colour:string,kind:string,"
        "leg:struct<carrier:string,miles:bigint>,raw:binary,"
        "legs:array<struct<carrier:string,miles:bigint>>,tags:array<string>,pair:array<bigint>,"
        "by_name:map<string,double>,maybe:string,key:bigint,made:bigint,several:bigint>"
    )
    body = """{
        "text": "JFK", "whole": "150", "real": 2, "yes": "true", "money": "12.30",
        "at": "2013-01-01T13:00:00+01:00", "day": "2013-01-01", "kind": null, "colour": "b",
        "uid": "00000000-0000-0000-0000-000000000001", "leg": {"carrier": "UA", "miles": 7},
        "raw": "hi", "legs": [{"carrier": "AA"}], "tags": ["x"], "pair": [1, 2],
        "by_name": {"n": 1.5, "none": null}, "the-key": 3, "b": 9, "unknown": 1
    }"""
    [value], reasons = judge(Everything, body)
    assert reasons == []
    assert value == {
        "text": "JFK", "whole": 150, "real": 2.0, "yes": True, "money": Decimal("12.30"),
        "at": NOON, "day": date(2013, 1, 1), "kind": None, "colour": "b",
        "uid": "00000000-0000-0000-0000-000000000001", "leg": {"carrier": "UA", "miles": 7},
        "raw": b"hi", "legs": [{"carrier": "AA", "miles": None}], "tags": ["x"], "pair": [1, 2],
        "by_name": [("n", 1.5), ("none", None)], "maybe": None, "key": 3, "made": 7, "several": 9,
    }  # fmt: skip


class Validated(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    origin: str = Field(pattern=re.compile("^[a-z]{3}$", re.IGNORECASE))
    start: int = 0
    end: int = 9
    strict: int = Field(0, strict=True)

    @field_validator("origin")
    @classmethod
    def upper(cls, origin: str) -> str:
        return origin.upper()

    @model_validator(mode="after")
    def ordered(self) -> Validated:
        if self.end < self.start:
            raise ValueError(f"{self.end} is before the start")
        if self.end == 13:
            raise KeyError(self.end)
        return self


def test_validators_and_settings_of_the_model_apply() -> None:
    values, reasons = judge(
        Validated,
        '{"origin": " jfk "}',
        '{"origin": "jfkx"}',
        '{"origin": "JFK", "strict": "1"}',
        '{"origin": "JFK", "more": 1}',
        '{"origin": "JFK", "end": -1}',
        '{"origin": "JFK", "end": 13}',
    )
    assert [value["origin"] for value in values] == ["JFK"]
    assert reasons == [
        "origin: String should match pattern '^[a-z]{3}$'",
        "strict: Input should be a valid integer",
        "more: Extra inputs are not permitted",
        "the body: Value error, -1 is before the start",
        "a validator failed with KeyError",
    ]
    _, quiet = judge(Validated, '{"origin": "JFK", "end": -1}', is_quiet=True)
    assert quiet == ["the body: value_error"]


class Flight(BaseModel):
    origin: str
    seats: int = 100
    price: Decimal | None = None
    legs: list[Leg] = []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "it has no text body"),
        ("", "the body: Invalid JSON: EOF while parsing"),
        ("null", "the body: Input should be an object"),
        ("[]", "the body: Input should be an object"),
        ('{"origin": "JFK"}{"origin": "EWR"}', "the body: Invalid JSON: trailing characters"),
        ("{}", "origin: Field required"),
        ('{"origin": {}}', "origin: Input should be a valid string"),
        ('{"origin": "JFK", "seats": 1.5}', "seats: Input should be a valid integer"),
        ('{"origin": "JFK", "seats": 9223372036854775808}', "seats: the number has more than 64 bits"),
        ('{"origin": "JFK", "price": "1.0000000000000000001"}', "price: the number has more digits than decimal(38,18)"),
        ('{"origin": "JFK", "price": "1e99999"}', "price: the number has more digits than decimal(38,18)"),
        ('{"origin": "JFK", "legs": [{"carrier": "UA"}, {"miles": 3}]}', "legs[1].carrier: Field required"),
        ('{"seats": "x", "price": [], "legs": [1, 2]}', "; and 2 more"),
        (("bytes", b"\xff"), "the body: Invalid JSON"),
        (("object", b'{"origin": "JFK"}'), "it has no text body"),
        (("damaged", b'{"origin": "JFK"}'), "the message is damaged"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_why(body: Body, reason: str) -> None:
    values, [found] = judge(Flight, body)
    assert values == []
    assert found is not None
    assert reason in found


def test_bytes_and_maps_are_bodies_too() -> None:
    values, reasons = judge(
        Flight, ("bytes", '{"origin": "Zürich"}'.encode()), '{"origin": "JFK", "x": 1}'
    )
    assert reasons == []
    assert [value["origin"] for value in values] == ["Zürich", "JFK"]


def struct(**columns: Any) -> StructType:
    """Return columns; a tuple with the type makes a column required."""
    made = StructType()
    for name, kind in columns.items():
        made.add(name, kind[0] if isinstance(kind, tuple) else kind, not isinstance(kind, tuple))
    return made


DECIMALS = [
    ("123456789012345678.91", "123456789012345678.91"), ("-0.10", "-0.10"), ("1.5e3", "1500"),
    ("100e-3", "0.1"), ("0.5000000", "0.5"), ("123456789012345678E-2", "1234567890123456.78"),
    ("1e17", "100000000000000000"), ("0.001", None), ("1.005e0", None), ("5e-3", None),
    ("123456789012345678.910000000000000000001", None), ("1e18", None), ("1e-99999999", None),
    ("1e99999999", None),
]  # fmt: skip


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize(("text", "expected"), DECIMALS)
def test_decimals_of_ddl_keep_their_digits_or_are_invalid(
    quote: str, text: str, expected: str | None
) -> None:
    values, reasons = judge(struct(p=DecimalType(20, 2)), f'{{"p": {quote}{text}{quote}}}')
    if expected is None:
        assert reasons == ["p: the number has more digits than decimal(20,2)"]
    else:
        assert [value["p"] for value in values] == [Decimal(expected)]


def test_columns_of_ddl_take_both_json_forms_of_a_number() -> None:
    schema = struct(
        a=(IntegerType(),), s=StringType(), r=DoubleType(), b=BooleanType(), at=TimestampType(),
        local=TimestampNTZType(), day=DateType(),
        legs=ArrayType(StructType([StructField("c", DoubleType())])),
        m=MapType(StringType(), LongType()),
    )  # fmt: skip
    both = (
        (
            '{"a": 7, "s": 1.10, "r": 2, "b": true, "at": 1357041600, "local": "2013-01-01T12:00:00",'
            ' "day": "2013-01-01", "legs": [{"c": 1.5}, null], "m": {"k": 9007199254740993}}'
        ),
        (
            '{"a": "7", "s": "1.10", "r": "2", "b": "true", "at": "2013-01-01T12:00:00Z",'
            ' "local": "2013-01-01T13:00:00+01:00", "day": "2013-01-01", "legs": [{"c": "1.5"}, null],'
            ' "m": {"k": "9007199254740993"}}'
        ),
    )
    values, reasons = judge(schema, *both)
    assert reasons == []
    expected = {
        "a": 7, "s": "1.10", "r": 2.0, "b": True, "at": NOON, "local": NOON.replace(tzinfo=None),
        "day": date(2013, 1, 1), "legs": [{"c": 1.5}, None], "m": [("k", 9007199254740993)],
    }  # fmt: skip
    assert values == [expected, expected]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{}", "a: Field required"),
        ('{"a": null}', "a: Input should be a valid integer"),
        ('{"a": 2147483648}', "a: the number has more than 32 bits"),
        ('{"a": 1, "s": {}}', "s: Input should be a valid string"),
        ('{"a": 1, "s": "\\ud800"}', "the body is not a JSON object"),
        ('{"a": 1} x', "the body is not a JSON object"),
        ("[1]", "the body is not a JSON object"),
        ("[" * 100_000, "the body is not a JSON object"),
    ],
)
def test_what_does_not_fit_ddl_says_why(body: str, reason: str) -> None:
    assert judge(struct(a=(IntegerType(),), s=StringType()), body) == ([], [reason])


def test_variants_have_any_structure_and_numbers_as_they_were_written() -> None:
    written = '{"x":[1.10,"1.10",12345678901234567890,null,true],"é":{}}'
    schema = struct(v=VariantType(), s=ArrayType(VariantType()))
    values, reasons = judge(schema, f'{{"v": {written}, "s": [1, "a"]}}', '{"v": null}')
    assert reasons == []
    whole = [VariantVal(**value) for value in (values[0]["v"], *values[0]["s"])]
    assert [value.toPython() for value in whole] == [
        {"x": [Decimal("1.10"), "1.10", 12345678901234567890, None, True], "é": {}},
        1,
        "a",
    ]
    assert values[1] == {"v": None, "s": None}


def test_binary_is_base64_and_times_are_iso() -> None:
    schema = struct(b=BinaryType(), t=TimeType())
    values, reasons = judge(schema, '{"b": "aGk=", "t": "12:30:01.5"}', '{"b": 1234}', '{"b": "?"}')
    assert values == [{"b": b"hi", "t": time(12, 30, 1, 500_000)}]
    assert reasons[0] == "b: the value is not a text in Base64"
    assert str(reasons[1]).startswith("b: ")


@pytest.mark.parametrize(
    "kind", [DayTimeIntervalType(), VarcharType(3), MapType(IntegerType(), StringType())]
)
def test_types_that_no_body_can_have_are_refused(kind: DataType) -> None:
    nested = ArrayType(StructType([StructField("x", kind)]))
    with pytest.raises(ConfigurationException, match=r"schema: x is .*write STRING, and cast it"):
        ddl_model(struct(n=nested))


class Wrong(BaseModel):
    anything: Any
    either: int | str
    clock: time
    pair: tuple[int, str]
    keys: dict[int, str]
    mixed: Literal["a", 1]


class Node(BaseModel):
    children: list[Node]


class Numbers(RootModel[list[int]]):
    pass


def test_all_that_has_no_type_is_named_at_once() -> None:
    with pytest.raises(ConfigurationException) as caught:
        model_columns(Wrong)
    text = str(caught.value)
    assert text.startswith("Schema Wrong: Wrong.anything: Any has no Spark type; write str, int")
    for sentence in (
        "Wrong.either has several types, but a column has one",
        "Wrong.clock: time has no Spark type",
        "Wrong.pair: tuple has no Spark type",
        "Wrong.keys: dict has no Spark type",
        "Wrong.mixed: its values must be all texts, all booleans or all whole numbers",
    ):
        assert sentence in text


def test_a_model_of_a_function_is_sent_by_value_with_the_format_and_not_by_an_option() -> None:
    least = 5

    class Local(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n < least:
                raise ValueError("too few")
            return n

    columns = struct_of(model_columns(Local))
    encoded = encode_schema(columns, Local, is_quiet=False)
    pickling: Any = cloudpickle
    source = pickling.loads(pickling.dumps(with_models((Local,))))
    options = {"url": "tcp://h:1", "path": "IN", "mode": "ranges", BODY_SCHEMA.lower(): encoded}
    read = pickling.dumps(source(options).streamReader(StructType()).read)
    models = pickling.loads(read).__self__._models
    assert [model.__name__ for model in models] == ["Local"]
    assert body_reader(encoded, models) is body_reader(
        encoded, pickling.loads(read).__self__._models
    )
    rows = list(body_reader(encoded, models).read([texts('{"n": 7}', '{"n": 4}')]))
    assert rows[0].column("pyjms_reason").to_pylist() == [None, "n: Value error, too few"]
    with pytest.raises(ConfigurationException, match="cannot be imported by Spark's processes"):
        BodyReader(encoded)


def test_a_model_that_other_processes_cannot_import_is_refused() -> None:
    columns = struct_of(model_columns(Flight))
    for name, sentence in (
        ("nowhere:X", "No module named"),
        (f"{__name__}:NOON", "not a pydantic"),
    ):
        given = encode_schema(columns, Flight, is_quiet=False)
        with pytest.raises(ConfigurationException, match=sentence):
            BodyReader(given.replace(f"{__name__}:Flight", name))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [(Node, "contains itself"), (Numbers, "Numbers is a RootModel, which has no columns")],
)
def test_a_model_without_columns_is_refused(model: type[BaseModel], sentence: str) -> None:
    with pytest.raises(ConfigurationException, match=sentence):
        model_columns(model)
