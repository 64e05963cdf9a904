"""Bodies to rows by a schema: both JSON forms of a number, missing values, reasons for bad rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyspark.sql import SparkSession

from pyjms.errors import ConfigurationException
from pyjms.spark.parsing import REASON, parse, schema_type
from pyjms.spark.rows import MESSAGE_COLUMNS, ddl

pytestmark = pytest.mark.timeout(300)
NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)

Judge = Callable[..., tuple[list[Any], list[str]]]


@pytest.fixture
def judge(spark: SparkSession) -> Judge:
    """Gives the good rows and the reasons of the bad ones, in the order of the bodies."""

    def judge(schema: Any, *bodies: object) -> tuple[list[Any], list[str]]:
        rows = []
        for number, body in enumerate(bodies):
            row: dict[str, Any] = dict.fromkeys(name for name, _ in MESSAGE_COLUMNS)
            row |= {"seq": number, "message_id": f"ID:{number}", "body_kind": "text"}
            row |= {"properties": {"k": "v"}, "destination": "queue://IN", "timestamp": NOON}
            row |= body if isinstance(body, dict) else {"text": body}
            rows.append(tuple(row.values()))
        frame = spark.createDataFrame(rows, ddl(MESSAGE_COLUMNS)).coalesce(1)
        good, bad = parse(frame, schema_type(schema), "messages", None)
        return (
            good.orderBy("jms.seq").collect(),
            [row[REASON] for row in bad.orderBy("seq").collect()],
        )

    return judge


class Leg(BaseModel):
    carrier: str
    miles: int | None = None


class Flight(BaseModel):
    origin: Annotated[str, Field(min_length=3)]
    delay: float | None = None
    seats: int = Field(default=100, ge=1)
    price: Annotated[Decimal, Field(max_digits=6, decimal_places=2)] | None = None
    at: datetime | None = None
    day: date | None = None
    late: bool = False
    kind: Literal["a", "b"] = "a"
    legs: list[Leg] = []
    wind: dict[str, float] = Field(default_factory=dict, alias="the.wind")


def test_values_come_in_both_json_forms(judge: Judge) -> None:
    texts = {
        "origin": "JFK", "delay": "2", "seats": "150", "price": "12.30", "at": "2013-01-01T12:00:00Z",
        "day": "2013-01-01", "late": "true", "kind": "b",
        "legs": [{"carrier": "UA", "miles": "7"}, {"carrier": "AA"}], "the.wind": {"n": "1.5"},
    }  # fmt: skip
    numbers = {
        "origin": "JFK", "delay": 2, "seats": 150.0, "price": 12.30, "at": 1357041600,
        "day": "2013-01-01", "late": True, "kind": "b",
        "legs": [{"carrier": "UA", "miles": 7}, {"carrier": "AA", "miles": None}],
        "the.wind": {"n": 1.5},
    }  # fmt: skip
    rows, reasons = judge(Flight, json.dumps(texts), json.dumps(numbers), '{"origin": "EWR"}')
    assert reasons == []
    first, second, bare = (row.asDict(recursive=True) for row in rows)
    assert first.pop("jms")["seq"] == 0
    assert second.pop("jms") == {
        "message_id": "ID:1",
        "seq": 1,
        "timestamp": NOON.replace(tzinfo=None),
        "destination": "queue://IN",
        "correlation_id": None,
        "type": None,
        "properties": {"k": "v"},
    }
    assert first == second
    assert (first["delay"], first["seats"], first["price"]) == (2.0, 150, Decimal("12.30"))
    assert (first["at"], first["day"]) == (NOON.replace(tzinfo=None), date(2013, 1, 1))
    assert first["legs"] == [{"carrier": "UA", "miles": 7}, {"carrier": "AA", "miles": None}]
    assert first["wind"] == {"n": 1.5}
    assert (bare["seats"], bare["late"], bare["kind"], bare["legs"], bare["wind"]) == (
        100, False, "a", [], {}
    )  # fmt: skip
    assert (bare["delay"], bare["at"]) == (None, None)


def body(**values: object) -> str:
    return json.dumps({"origin": "JFK", **values})


BAD = [
    (None, "it has no text body"),
    ("", "the body is not a JSON object"),
    ("{", "the body is not a JSON object"),
    ("null", "the body is not a JSON object"),
    ('"x"', "the body is not a JSON object"),
    ("[]", "the body is not a JSON object"),
    ("{'origin': 'JFK'}", "the body is not a JSON object"),
    ('{"origin": "JFK"} and more', "the body is not a JSON object"),
    ('{"origin": "JFK"}{"origin": "EWR"}', "the body is not a JSON object"),
    ('{"origin": "JFK"}, {"origin": "EWR"}', "the body is more than one JSON object"),
    ('{"origin": "JFK"}]}  garbage', "the body is not a JSON object"),
    ('{"origin": "JFK"}],"x":[', "the body is not a JSON object"),
    ('{"origin": "JFK"}],"v":[{"origin": "EWR"}', "the body is not a JSON object"),
    ('{"origin": "JFK"}],"v":[{"origin": "EWR"}]} {', "the body is not a JSON object"),
    ('{"origin": "JFK", "delay": 01}', "the body is not a JSON object"),
    ('{"origin": "JFK", "delay": 1.}', "the body is not a JSON object"),
    ('{"origin": "JFK", 2: 3}', "the body is not a JSON object"),
    (body(origin={"a": "b"}), "origin is not of type string"),
    (body(origin=["JFK"]), "origin is not of type string"),
    ('{"origin": NaN}', "origin is not of type string"),
    (body(legs=[{"carrier": {}}]), "legs[].carrier is not of type string"),
    ("{}", "origin is missing or null"),
    (body(origin=None), "origin is missing or null"),
    (body(origin="JF"), "origin is shorter than 3"),
    (body(delay="NA"), "delay is not of type double"),
    (body(delay="1d"), "delay is not of type double"),
    (body(delay={}), "delay is not of type double"),
    (body(seats=1.5), "seats is not of type bigint"),
    (body(seats=0), "seats is less than 1"),
    (body(price="1.234"), "price is not of type decimal(6,2)"),
    (body(price=123456), "price is not of type decimal(6,2)"),
    (body(at="12:30"), "at is not of type timestamp"),
    (body(at="soon"), "at is not of type timestamp"),
    (body(day="2013-02-30"), "day is not of type date"),
    (body(day="2013-01-01T05:00:00Z"), "day is not of type date"),
    (body(late="perhaps"), "late is not of type boolean"),
    (body(kind="c"), "kind is not one of a, b"),
    (body(legs="x"), "a value is not an object or list, as the schema requires"),
    (body(legs=[None]), "legs[] is null"),
    (body(legs=[{"carrier": "UA"}, {"miles": 3}]), "legs[].carrier is missing or null"),
    (body(legs=[{"carrier": "UA", "miles": "far"}]), "legs[].miles is not of type bigint"),
    ('{"origin": "JFK", "the.wind": {"n": null}}', "the.wind[] is null"),
    ('{"origin": "JFK", "the.wind": {"n": "no"}}', "the.wind[] is not of type double"),
    ({"body_kind": "object", "bytes": b'{"origin": "JFK"}'}, "it has no text body"),
    ({"body_kind": "bytes", "bytes": b"\xff"}, "it has no text body"),
    ({"body_kind": "damaged", "bytes": b'{"origin": "JFK"}'}, "the message is damaged"),
]


def test_what_does_not_fit_says_why(judge: Judge) -> None:
    rows, reasons = judge(Flight, *(one for one, _ in BAD))
    assert rows == []
    assert list(zip((one for one, _ in BAD), reasons, strict=True)) == BAD


def test_bytes_and_maps_are_read_too_and_unknown_keys_are_nothing(judge: Judge) -> None:
    rows, reasons = judge(
        Flight,
        {"body_kind": "bytes", "bytes": '{"origin": "Zürich"}'.encode()},
        {"body_kind": "map", "text": '{"origin": "JFK", "delay": 3, "x": 1}'},
        '{"origin": "JFK", "delay": NaN}',
    )
    assert reasons == []
    assert [row.origin for row in rows] == ["Zürich", "JFK", "JFK"]
    assert str([row.delay for row in rows]) == "[None, 3.0, nan]"


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


def test_a_closed_model_has_no_other_keys(judge: Judge) -> None:
    rows, reasons = judge(Closed, '{"a": 1}', '{"a": 1, "b": 2}', '{"a": 1, "c": NaN}')
    assert [row.a for row in rows] == [1]
    assert reasons == ["b is not a key of the schema", "c is not a key of the schema"]


DIGITS = [
    ("123456789012345678.91", "123456789012345678.91"),
    ("100000000000000.01", "100000000000000.01"),
    ("-0.10", "-0.10"),
    ("1.5e3", "1500"),
    ("100e-3", "0.1"),
    ("0.5000000", "0.5"),
    ("123456789012345678E-2", "1234567890123456.78"),
    ("1e17", "100000000000000000"),
    ("0.001", None),
    ("1.005e0", None),
    ("5e-3", None),
    ("123456789012345678.910000000000000000001", None),
    ("1e18", None),
    ("1e-99999999", None),
    ("1e99999999", None),
]


@pytest.mark.parametrize("quote", ["", '"'])
def test_decimals_keep_their_digits_or_are_bad(judge: Judge, quote: str) -> None:
    bodies = [f'{{"p": {quote}{text}{quote}}}' for text, _ in DIGITS]
    rows, reasons = judge("p DECIMAL(20,2)", *bodies)
    wanted = [Decimal(text) for _, text in DIGITS if text is not None]
    assert [row.p for row in rows] == wanted
    assert set(reasons) == {"p is not of type decimal(20,2)"}
    assert len(rows) + len(reasons) == len(DIGITS)


class Exact(BaseModel):
    p: Decimal = Decimal("0.100000000000000001")
    n: int = 9007199254740993
    s: str = '{"x": 1.10}'
    l: list[Decimal] = [Decimal("1.10")]  # noqa: E741
    d: dict[str, str] = {"[": "[1.10]", "~": "~"}
    f: float = float("-inf")


def test_numbers_are_as_they_were_written(judge: Judge) -> None:
    rows, reasons = judge(
        Exact,
        "{}",
        '{"p": 12345678901234567.89, "n": 9007199254740993.0, "s": 12345678901234567.89,'
        ' "l": [0.1234567890123456, -12345678901234567890.5 ], "f": -Infinity}',
        '{"s": 1.10, "d": {"a": 1.10, "1, 2": "1, 2", "{": "{1, 2", "}": "\\u007b", "e": 1e2},'
        ' "n": 1e3, "f": 1e400}',
        '{"s": "~: 1.0, \\", 2.0, ", "n": -0}',
        '{"p": 0.1234567890123456789}',
        '{"p": "0.1234567890123456789"}',
        '{"n": 1.0000000000000000001}',
        '{"n": 9223372036854775808}',
        '{"f": "0x1p3"}',
        '{"f": "1\\""}',
    )
    bare, long, texts, marks = (row.asDict() for row in rows)
    assert (bare["p"], bare["n"]) == (Decimal("0.100000000000000001"), 9007199254740993)
    assert (bare["s"], bare["d"]) == ('{"x": 1.10}', {"[": "[1.10]", "~": "~"})
    assert (bare["l"], bare["f"]) == ([Decimal("1.10")], float("-inf"))
    assert (long["p"], long["n"]) == (Decimal("12345678901234567.89"), 9007199254740993)
    assert long["s"] == "12345678901234567.89"
    assert long["l"] == [Decimal("0.1234567890123456"), Decimal("-12345678901234567890.5")]
    assert (texts["s"], texts["n"], texts["f"]) == ("1.10", 1000, float("inf"))
    assert texts["d"] == {"a": "1.10", "1, 2": "1, 2", "{": "{1, 2", "}": "{", "e": "1e2"}
    assert (marks["s"], marks["n"]) == ('~: 1.0, ", 2.0, ', 0)
    assert reasons == [
        "p is not of type decimal(38,18)",
        "p is not of type decimal(38,18)",
        "n is not of type bigint",
        "n is not of type bigint",
        "f is not of type double",
        "f is not of type double",
    ]


def test_names_that_spark_reads_itself_are_unchanged(judge: Judge) -> None:
    schema = "a VARIANT, b DECIMAL(3,2), c STRING COLLATE UTF8_LCASE, e BINARY"
    rows, reasons = judge(
        schema,
        '{"a": {"x": [1.10, "1.10", "{"]}, "b": 1.10, "c": "{A", "e": "aGk="}',
        '{"b": 1.101}',
        '{"a": 1}], "x": [{}',
        '{"e": 1234}',
    )
    (row,) = rows
    assert row.a.toPython() == {"x": [Decimal("1.1"), "1.10", "{"]}
    assert (row.b, row.c, bytes(row.e)) == (Decimal("1.10"), "{A", b"hi")
    assert reasons == [
        "b is not of type decimal(3,2)",
        "the body is not a JSON object",
        "a value is not an object or list, as the schema requires",
    ]


class Strict(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    finite: float = 0
    reals: list[float] = []
    any: Annotated[float, Field(allow_inf_nan=True)] = 0


class Limited(BaseModel):
    least: Annotated[float, Field(ge=0)] = 0
    more: Annotated[float, Field(gt=0)] = 1
    most: Annotated[float, Field(le=0)] = 0
    money: Annotated[Decimal, Field(ge=0.1)] = Decimal(1)
    code: Annotated[str, Field(pattern="^abc$")] = "abc"
    named: Annotated[str, Field(pattern=r"^(?P<n>\w)\s?(?<m>[^a\d])$")] = "xx"
    dot: Annotated[str, Field(pattern=".b")] = "ab"
    uid: UUID | None = None
    choice: Annotated[Literal["a", "bb"], Field(min_length=2)] = "bb"
    inner: Strict | None = None


LIMITED: list[tuple[str, Any]] = [
    *((name, value) for name in ("least", "more", "most")
      for value in (float("nan"), "nan", float("inf"), float("-inf"), 0, 1, -1)),
    ("money", 0.1), ("money", 0.09),
    *(("code", text) for text in ("abc", "abc\n", "abc\r\n", "xabc", "ABC")),
    *(("named", text) for text in ("ab", "éb", "aé", "a\u2003b", "a1", "a٣", "aa", "ab\n", "!b")),
    *(("dot", text) for text in ("ab", "\nb", "\rb", "\u2028b", "😀b")),
    ("uid", "00000000-0000-0000-0000-000000000001"),
    ("uid", "00000000-0000-0000-0000-000000000001\n"), ("uid", "0" * 24 + "-00000001"),
    ("choice", "a"), ("choice", "bb"), ("inner", {"finite": float("nan")}),
    ("inner", {"finite": 1}), ("inner", {"reals": [1, float("inf")]}), ("inner", {"any": float("inf")}),
]  # fmt: skip


def test_limits_are_those_of_pydantic(judge: Judge) -> None:
    texts = [json.dumps({name: value}) for name, value in LIMITED]
    rows, _ = judge(Limited, *texts)
    theirs = []
    for number, text in enumerate(texts):
        try:
            Limited.model_validate_json(text)
        except ValidationError:
            continue
        theirs.append(number)
    assert [LIMITED[row.jms.seq] for row in rows] == [LIMITED[number] for number in theirs]


def test_ddl_reads_the_same_way(judge: Judge) -> None:
    schema = "a INT NOT NULL, b ARRAY<STRUCT<c: DOUBLE>>, d DECIMAL(5,1), e BINARY, f TIMESTAMP_NTZ"
    good = '{"a": "7", "b": [{"c": "1.5"}], "d": 2.5, "f": "2013-01-01T12:00:00"}'
    rows, reasons = judge(schema, good, '{"b": []}', '{"a": 99999999999}', '{"a": 1, "d": 2.55}')
    (row,) = rows
    assert (row.a, row.b[0].c, row.d) == (7, 1.5, Decimal("2.5"))
    assert row.f == NOON.replace(tzinfo=None)
    assert reasons == [
        "a is missing or null",
        "a is not of type int",
        "d is not of type decimal(5,1)",
    ]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("a NOTHING", "schema is not valid DDL: "),
        ("jms STRING", "schema has a field jms, which is the name of the column with the origin"),
        ("a ARRAY<STRUCT<b: VARIANT>>", "schema has a VARIANT inside a, where numbers are read"),
        ("a MAP<STRING, VARIANT>", "schema has a VARIANT inside a, where numbers are read"),
    ],
)
def test_a_wrong_schema_is_reported(spark: SparkSession, schema: str, sentence: str) -> None:
    with pytest.raises(ConfigurationException, match=sentence):
        schema_type(schema)


class Optionals(BaseModel):
    s: str | None = None
    i: int | None = None
    f: float | None = None
    b: bool | None = None
    d: Annotated[Decimal, Field(max_digits=6, decimal_places=2)] | None = None
    t: datetime | None = None
    y: date | None = None
    l: list[int] | None = None  # noqa: E741
    m: dict[str, float] | None = None
    k: Literal["1", "x"] | None = None
    u: UUID | None = None


VALUES: list[Any] = [
    None, 1, 0, -1, 1.5, 2.0, 1e3, 12345678901234567890, "1", "1.5", "2.0", "1e3", " 7 ", "x", "",
    True, False, "true", "yes", "on", "t", "0", [], [1], ["1"], ["x"], [None], {}, {"a": 1},
    {"a": "1.5"}, {"a": None}, "2013-01-01", "2013-01-01T05:00:00Z", "2013-01-01T00:00:00Z",
    "2013-01-01 05:00:00.123+02:00", "2013-01-01T05:00", "2013-13-01", "12:00", "2013",
    1357016400, 1357016400000, 1357016400.5, "1357016400", "Infinity", "NaN", "1_000", "+5", "0x1f",
    "1.234", "12345.6", "00000000-0000-0000-0000-000000000001", "1d", "2013-1-1", "1970-01-01",
]  # fmt: skip
BIG = 12345678901234567890
PYDANTIC_ONLY = [
    ("i", BIG), ("i", True), ("i", False), ("i", "1_000"), ("f", True), ("f", False),
    ("f", "1_000"), ("b", "on"), ("d", "1_000"), ("y", 0), ("y", "0"),
]  # fmt: skip
SPARK_ONLY = [
    *(("s", value) for value in VALUES if isinstance(value, int | float)),
    ("i", "1e3"), ("t", "1e3"), ("t", " 7 "), ("t", "2013-1-1"), ("y", "2013-1-1"), ("k", 1),
]  # fmt: skip


def test_it_judges_as_pydantic_does_but_for_these(judge: Judge) -> None:
    cases = [(name, value) for name in Optionals.model_fields for value in VALUES]
    texts = [json.dumps({name: value}) for name, value in cases]
    rows, _ = judge(Optionals, *texts)
    read = {row.jms.seq: row.asDict(recursive=True) for row in rows}
    pydantic_only, spark_only = [], []
    for number, (name, value) in enumerate(cases):
        ours = read.get(number)
        try:
            theirs = getattr(Optionals.model_validate_json(texts[number]), name)
        except ValidationError:
            if ours is not None:
                spark_only.append((name, value))
            continue
        if ours is None:
            pydantic_only.append((name, value))
        else:
            assert said(ours[name]) == said(theirs), (name, value)
    assert said(pydantic_only) == said(PYDANTIC_ONLY)
    assert said(spark_only) == said(SPARK_ONLY)


def said(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return str(value.normalize() if isinstance(value, Decimal) else value)
