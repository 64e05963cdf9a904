"""Bodies as Spark's JSON reader gets them: numbers keep their digits, and one object is one object.

The reader prints a number as a double before it is a text, tells a text from an object by nothing,
and stops where the first value ends. So numbers are put in quotes, texts that look like JSON get a
mark, and what follows a body has to be found behind it. (spark-pipeline 6.2)
"""

from __future__ import annotations

from secrets import token_hex
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from pyjms.spark.columns import DAMAGED

__all__ = [
    "CORRUPT",
    "END",
    "OPTIONS",
    "body_text",
    "first_object",
    "keys_of",
    "marked",
    "no_single_object",
    "quote_numbers",
    "read_objects",
    "text_of",
]

CORRUPT: Final = "corrupt"
"""The field that the reader fills where it could not read all."""
OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
}
END: Final = f"pyjms_{token_hex(16)}"
"""The key of the object behind a body. No body knows it, so none can close ours and go on."""
_NO_OBJECT: Final = "the body is no JSON object"
_MARK: Final = "~"
_LOOKS_LIKE_JSON: Final = ("{", "[", '"', _MARK)
_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
# From the end of the last number over texts and all else to the next one. What is no number by
# JSON's grammar stays without quotes, an error to the reader. Possessive: Java takes no stack.
_NUMBERS: Final = (
    rf'(?s)\G((?:[^"0-9-]++|-(?![0-9])|{_TEXT})*+)(?<=[\[:,\s])({_NUMBER})(?=\s*+[,\]}}])'
)
# No closing or escaped quote has these behind it in JSON; a key has a colon behind its end.
_QUOTES: Final = (
    r'(?s)(?<!\\)"(?=(?:[{\[~]|\\(?:"|u00(?:7[bBeE]|5[bB]|22)))(?:[^"\\]|\\.)*+"\s*+(?![:\s]))'
)
_NO_TEXT: Final = r'^[{\["]'
"""An object, a list, and NaN, which the reader puts in quotes."""


def body_text() -> Column:
    """Return the text of a message, bytes as UTF-8; null if it is an object, damaged, or none."""
    data = F.try_validate_utf8(F.col("bytes").cast("string"))
    return F.coalesce("text", F.when(~F.col("body_kind").isin("object", DAMAGED), data))


def quote_numbers(body: Column) -> Column:
    """Return JSON with its numbers as texts, and marks on the texts that look like JSON.

    What was no JSON before is none then.
    """
    texts = F.regexp_replace(body, F.lit(_QUOTES), F.lit(f'"{_MARK}'))
    return F.regexp_replace(texts, F.lit(_NUMBERS), F.lit('$1"$2"'))


def marked(text: str) -> str:
    """Return a text as the reader gives it for one in a body."""
    return _MARK + text if text.startswith(_LOOKS_LIKE_JSON) else text


def text_of(raw: Column) -> Column:
    """Return the text of a value as the reader gave it; null for an object, a list and NaN."""
    return F.when(raw.startswith(_MARK), F.substring(raw, 2, 2**31 - 1)).when(
        ~raw.rlike(_NO_TEXT), raw
    )


def read_objects(body: Column, ddl: str) -> Column:
    """Return what the reader makes of a body: `first_object` is it, if `no_single_object` is null.

    `ddl` is that of a struct with a field END.
    """
    framed = F.concat(F.lit(f'{{"{END}":['), body, F.lit(f',{{"{END}":""}}]}}'))
    return F.from_json(framed, f"{END} array<{ddl}>, {CORRUPT} string", OPTIONS)


def first_object(read: Column) -> Column:
    """Return the object that a body is."""
    return F.get(read.getField(END), 0)


def no_single_object(read: Column) -> list[Column]:
    """Return what is wrong with a body as a whole: sentences, or nulls."""
    objects = read.getField(END)
    last = F.get(objects, F.size(objects) - 1)
    return [
        F.when(read.isNull(), F.lit("it has no body that is a text")),
        F.when(objects.isNull(), F.lit(_NO_OBJECT)),
        F.when(
            read.getField(CORRUPT).isNotNull(),
            F.lit("a value is not the object or list that the schema has there"),
        ),
        F.when(F.get(objects, 0).isNull() | last.getField(END).isNull(), F.lit(_NO_OBJECT)),
        F.when(F.size(objects) > 2, F.lit("the body is more than one JSON object")),
        F.when(F.size(objects) < 2, F.lit(_NO_OBJECT)),
    ]


def keys_of(body: Column) -> Column:
    """Return the keys of a body that is one object."""
    return F.map_keys(F.from_json(body, "map<string,string>", OPTIONS))
