"""What Spark makes of a pipeline: read from its plans, before anything runs.

Plans are Spark's own objects in the JVM; where only their text says something, it is the text of
`explain`. (spark-pipeline 3.2, 5 D)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["attributes", "has_exchange", "stateful_operators", "streams_read"]

_EXCHANGE: Final = re.compile(r"^[\s:+\-]*(?:\*\(\d+\) )?\w*Exchange\b", re.MULTILINE)
_STATEFUL: Final = re.compile(
    r"^[\s:+\-]*(?:\*\(\d+\) )?(?P<what>(?:StateStoreSave|SessionWindowStateStoreSave"
    r"|StreamingSymmetricHashJoin|StreamingDeduplicate\w*|FlatMapGroups\w*WithState"
    r"|TransformWithState\w*|StreamingGlobalLimit)\b[^\n]*?)(?:,? state info.*)?$",
    re.MULTILINE,
)
_MERGED: Final = re.compile(r"functions=\[(?P<what>[^\n]*merge_[^\n]*)\]\)", re.MULTILINE)
_NUMBERS: Final = re.compile(r"#\d+L?|-T\d+ms|plan_id=\d+")


def has_exchange(frame: DataFrame) -> bool:
    """Whether rows move between partitions, which puts them in another order each time."""
    return _EXCHANGE.search(_explained(frame)) is not None


def stateful_operators(frame: DataFrame) -> list[str]:
    """Return what keeps state between batches: each operator with its keys and functions."""
    text = _explained(frame)
    found = [*_STATEFUL.finditer(text), *_MERGED.finditer(text)]
    return sorted({_NUMBERS.sub("", match["what"]).strip() for match in found})


def streams_read(frame: DataFrame) -> int:
    """Return how many streams of the format `jms` it reads; branches of one are one."""
    leaves = _analyzed(frame).collectLeaves()
    ours = [
        leaves.apply(number)
        for number in range(leaves.size())
        if leaves.apply(number).isStreaming()
        and leaves.apply(number).nodeName().startswith("StreamingRelation")
        and leaves.apply(number).sourceName() == "jms"
    ]
    return len({leaf.output().apply(0).exprId().id() for leaf in ours})


def attributes(frame: DataFrame) -> Mapping[str, int]:
    """Return the columns with the numbers that Spark knows them by; a changed one has another."""
    output = _analyzed(frame).output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def _analyzed(frame: DataFrame) -> Any:
    return _jvm_frame(frame).queryExecution().analyzed()


def _explained(frame: DataFrame) -> str:
    jvm: Any = frame.sparkSession._jvm
    mode = jvm.org.apache.spark.sql.execution.ExplainMode
    analyzed = frame.select("*")  # of a frame of SQL, Spark would not see that it is a stream
    text = _jvm_frame(analyzed).queryExecution().explainString(mode.fromString("simple"))
    return str(text)


def _jvm_frame(frame: Any) -> Any:
    """Return the frame's object in the JVM."""
    return frame._jdf
