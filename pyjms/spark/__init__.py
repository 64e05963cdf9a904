"""JMS destinations and broker journals as Spark sources and sinks, and pipelines over them.

Importing it needs no Spark. The module of a name is imported on first use, since Spark's Python
processes import this package and need none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

if TYPE_CHECKING:
    from pyjms.spark.pipeline import Pipeline as Pipeline
    from pyjms.spark.pipeline import find_pipelines as find_pipelines
    from pyjms.spark.pipeline import jms_pipeline as jms_pipeline
    from pyjms.spark.pipeline import pipeline_marks as pipeline_marks
    from pyjms.spark.session import spark_session as spark_session

__getattr__, __dir__ = lazily(globals())
