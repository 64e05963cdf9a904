"""Analysis of a pipeline's Spark plan before it runs.

Plans are objects of the JVM; properties that only their text shows are found in the text of
`explain`. (spark-pipeline 3.2, 5 D)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyjms.spark.gateway import explained_plan, jvm_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["column_ids", "comparable", "count_streams", "has_exchange", "stateful_operators"]

_EXCHANGE: Final = re.compile(r"^[\s:+\-]*(?:\*\(\d+\) )?\w*Exchange\b", re.MULTILINE)
_STATEFUL: Final = re.compile(
    r"^[\s:+\-]*(?:\*\(\d+\) )?(?P<what>(?:StateStoreSave|SessionWindowStateStoreSave"
    r"|StreamingSymmetricHashJoin|StreamingDeduplicate\w*|FlatMapGroups\w*WithState"
    r"|TransformWithState\w*|StreamingGlobalLimit)\b[^\n]*?)(?:,? state info.*)?$",
    re.MULTILINE,
)
_MERGED: Final = re.compile(r"functions=\[(?P<what>[^\n]*merge_[^\n]*)\]\)", re.MULTILINE)
_NUMBERS: Final = re.compile(r"#\d+L?|-T\d+ms|plan_id=\d+")
_COMMON: Final = re.compile(r"_common_expr_\d+")


def has_exchange(frame: DataFrame) -> bool:
    """Return whether rows move between partitions, so that their order varies from run to run."""
    return _EXCHANGE.search(_explained(frame)) is not None


def stateful_operators(frame: DataFrame) -> list[str]:
    """Return the operators that keep state between batches, with their keys and functions."""
    text = _explained(frame)
    found = [*_STATEFUL.finditer(text), *_MERGED.finditer(text)]
    return sorted({comparable(match["what"]) for match in found})


def comparable(operator: str) -> str:
    """Return an operator of a plan without the numbers that differ from plan to plan.

    Spark counts common expressions through the life of a session: a query that is started again
    in the same process has other numbers than its first plan, which began with 0.
    """
    names = {
        name: f"_common_expr_{n}" for n, name in enumerate(dict.fromkeys(_COMMON.findall(operator)))
    }
    return _NUMBERS.sub("", _COMMON.sub(lambda match: names[match.group()], operator)).strip()


def count_streams(frame: DataFrame) -> int:
    """Return the number of streams of the format `jms`; branches of one stream count once."""
    leaves = _analyzed(frame).collectLeaves()
    streams = [
        leaves.apply(number)
        for number in range(leaves.size())
        if leaves.apply(number).isStreaming()
        and leaves.apply(number).nodeName().startswith("StreamingRelation")
        and leaves.apply(number).sourceName() == "jms"
    ]
    return len({stream.output().apply(0).exprId().id() for stream in streams})


def column_ids(frame: DataFrame) -> Mapping[str, int]:
    """Return the columns with Spark's expression ids; a computed column has a new id."""
    output = _analyzed(frame).output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def _analyzed(frame: DataFrame) -> Any:
    return jvm_plan(frame).analyzed()


def _explained(frame: DataFrame) -> str:
    # without the select, Spark would not recognize a frame made by SQL as a stream
    return explained_plan(frame.select("*"))
