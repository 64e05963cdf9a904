"""Where a pipeline runs: its broker, and the folder of all that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyjms.spark.pipeline.definition.pipeline import Pipeline

__all__ = ["PipelineLocation"]

_VARIABLE: Final = "passwordEnv"


@dataclass(frozen=True, kw_only=True)
class PipelineLocation:
    """The broker of a pipeline and its folder, which a cluster's machines all have to reach.

    A password in `password_env` stays out of Spark's plans; the variable has to be set before
    Spark starts, for driver and executors.
    """

    url: str
    folder: Path
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None

    @property
    def checkpoint(self) -> Path:
        """What Spark keeps: offsets, commits, state."""
        return self.folder / "checkpoint"

    @property
    def fingerprint(self) -> Path:
        """The file that says which pipeline the checkpoint is of."""
        return self.folder / "pyjms-pipeline.json"

    def spool(self, source: str) -> Path:
        """The folder of a source's messages, where the broker has no ranges."""
        return self.folder / "spool" / source

    def options(self, pipeline: Pipeline) -> dict[str, str]:
        """Return the options that say which broker; a pipeline may name its own passwordEnv."""
        own = pipeline.options_of_source.items()
        variable = next((v for k, v in own if k.lower() == _VARIABLE.lower()), None)
        variable = variable or self.password_env
        given = {
            "url": self.url,
            "user": self.user,
            _VARIABLE: variable,
            "password": self.password if variable is None else None,
        }
        return {key: text for key, text in given.items() if text is not None}

    def source_options(self, pipeline: Pipeline, source: str, owner: str) -> dict[str, str]:
        """Return the options of one source of a pipeline."""
        most = pipeline.max_messages_per_trigger
        return {
            **pipeline.options_of_source,
            **self.options(pipeline),
            "partitions": str(pipeline.partitions),
            "owner": owner,
            "spool": str(self.spool(source).absolute()),
            **({} if most is None else {"maxMessagesPerTrigger": str(most)}),
        }
