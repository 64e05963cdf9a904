"""Message bodies prepared for Spark's JSON reader: exact numbers, and exactly one object.

The reader converts a number to a double before it becomes a text, does not distinguish a text from
an object that is read as a text, and stops after the first value. So numbers are put in quotes,
texts that look like JSON get a prefix, and a body is framed by an array with a known last element,
which shows whether something follows the object. (spark-pipeline 6.2)
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
"""The field that the reader fills if it could not read everything."""
OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
}
END: Final = f"pyjms_{token_hex(16)}"
"""The key of the object after the body; random, so that no body can imitate it."""
_NO_OBJECT: Final = "the body is not a JSON object"
_MARK: Final = "~"
_LOOKS_LIKE_JSON: Final = ("{", "[", '"', _MARK)
_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
# From the end of the last number, over texts and everything else, to the next one. What is not a
# number in JSON's grammar stays unquoted, an error to the reader. The quantifiers are possessive,
# so that Java does not use its stack.
_NUMBERS: Final = (
    rf'(?s)\G((?:[^"0-9-]++|-(?![0-9])|{_TEXT})*+)(?<=[\[:,\s])({_NUMBER})(?=\s*+[,\]}}])'
)
# In JSON these characters never follow a closing or escaped quote; a key is followed by a colon.
_QUOTES: Final = (
    r'(?s)(?<!\\)"(?=(?:[{\[~]|\\(?:"|u00(?:7[bBeE]|5[bB]|22)))(?:[^"\\]|\\.)*+"\s*+(?![:\s]))'
)
_NO_TEXT: Final = r'^[{\["]'
"""An object, a list, or NaN, which the reader puts in quotes."""


def body_text() -> Column:
    """Return the text of a message, bytes as UTF-8; null for an object, damaged or empty body."""
    data = F.try_validate_utf8(F.col("bytes").cast("string"))
    return F.coalesce("text", F.when(~F.col("body_kind").isin("object", DAMAGED), data))


def quote_numbers(body: Column) -> Column:
    """Return JSON with its numbers as texts, and a prefix on texts that look like JSON.

    Text that is not JSON stays invalid.
    """
    texts = F.regexp_replace(body, F.lit(_QUOTES), F.lit(f'"{_MARK}'))
    return F.regexp_replace(texts, F.lit(_NUMBERS), F.lit('$1"$2"'))


def marked(text: str) -> str:
    """Return a text as the reader returns it for one in a body."""
    return _MARK + text if text.startswith(_LOOKS_LIKE_JSON) else text


def text_of(raw: Column) -> Column:
    """Return a value of the reader as a text; null for an object, a list and NaN."""
    return F.when(raw.startswith(_MARK), F.substring(raw, 2, 2**31 - 1)).when(
        ~raw.rlike(_NO_TEXT), raw
    )


def read_objects(body: Column, ddl: str) -> Column:
    """Return the reader's result for a body: its `first_object`, if `no_single_object` is null.

    `ddl` is the type of a struct with a field END.
    """
    framed = F.concat(F.lit(f'{{"{END}":['), body, F.lit(f',{{"{END}":""}}]}}'))
    return F.from_json(framed, f"{END} array<{ddl}>, {CORRUPT} string", OPTIONS)


def first_object(read: Column) -> Column:
    """Return the object of a body that the reader has read."""
    return F.get(read.getField(END), 0)


def no_single_object(read: Column) -> list[Column]:
    """Return the problems of a body as a whole: sentences, or nulls."""
    objects = read.getField(END)
    last = F.get(objects, F.size(objects) - 1)
    return [
        F.when(read.isNull(), F.lit("it has no text body")),
        F.when(objects.isNull(), F.lit(_NO_OBJECT)),
        F.when(
            read.getField(CORRUPT).isNotNull(),
            F.lit("a value is not an object or list, as the schema requires"),
        ),
        F.when(F.get(objects, 0).isNull() | last.getField(END).isNull(), F.lit(_NO_OBJECT)),
        F.when(F.size(objects) > 2, F.lit("the body is more than one JSON object")),
        F.when(F.size(objects) < 2, F.lit(_NO_OBJECT)),
    ]


def keys_of(body: Column) -> Column:
    """Return the keys of a body that is one object."""
    return F.map_keys(F.from_json(body, "map<string,string>", OPTIONS))
