"""The list of Spark's types, against Spark: what it reads is let through, what it lacks is told."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pyjms.errors import ConfigurationException
from pyjms.spark.checks import _TYPES, ddl_problems
from pyjms.spark.query import body_schema

ARGUMENTS = {
    "ARRAY": "<INT>",
    "MAP": "<STRING, INT>",
    "STRUCT": "<x: INT>",
}
TEXTS = (
    "a int not null comment 'an INTT, it\\'s said', b: long, `c d` timestamp_ntz",
    "STRUCT<a: INT, b: ARRAY<STRING>>",
    "m MAP<STRING, ARRAY<STRUCT<x: DECIMAL(10, 2), y: VARIANT>>>, n Tinyint",
    "s STRUCT<>, t STRING COLLATE UTF8_BINARY, v VARIANT",
    "struct STRING, d DEC(3), x ARRAY<TIMESTAMP WITHOUT TIME ZONE> -- INTT\n, y BYTE",
)
WRONG = (
    *("INT", "a STRINGS", "a ARRAY<MAP<STRING, INTT>>", "a INT, b", "a struct<b: int, c>"),
    *("a INTERVAL DAY TO SECOND", "a VARCHAR(3)", "a VOID", "a ARRAY<CHAR(1)>"),
)


@pytest.mark.parametrize("name", sorted(_TYPES))
def test_spark_has_every_type_of_the_list(spark: SparkSession, name: str) -> None:
    body_schema(f"x {name}{ARGUMENTS.get(name, '')}", is_quiet=False)


@pytest.mark.parametrize("text", TEXTS)
def test_spark_reads_what_is_let_through(spark: SparkSession, text: str) -> None:
    assert ddl_problems(text) == []
    body_schema(text, is_quiet=False)


@pytest.mark.parametrize("text", WRONG)
def test_spark_reads_nothing_that_is_refused(spark: SparkSession, text: str) -> None:
    assert ddl_problems(text)
    with pytest.raises((ConfigurationException, AssertionError)):
        body_schema(text, is_quiet=False)
