"""JMS destinations and broker journals as Spark sources and sinks, and pipelines over them.

Importing it needs no Spark.
"""

from __future__ import annotations

from pyjms.spark.pipeline import Pipeline, find_pipelines, jms_pipeline, pipeline_marks
from pyjms.spark.session import spark_session

__all__ = ["Pipeline", "find_pipelines", "jms_pipeline", "pipeline_marks", "spark_session"]
