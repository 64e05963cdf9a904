"""The location of a pipeline: its broker, and the folder of its checkpoint, spool and status."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyjms.spark.pipeline.definition.pipeline import Pipeline

__all__ = ["PipelineLocation"]

_VARIABLE_OPTION: Final = "passwordEnv"


@dataclass(frozen=True, kw_only=True)
class PipelineLocation:
    """The broker of a pipeline and its folder, which all machines of a cluster have to reach.

    With `password_env`, the name of an environment variable, the password stays out of Spark's
    plans; the variable has to be set for driver and executors before Spark starts.
    """

    url: str
    folder: Path
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint: offsets, commits, state."""
        return self.folder / "checkpoint"

    @property
    def fingerprint(self) -> Path:
        """The file that identifies the pipeline of the checkpoint."""
        return self.folder / "pyjms-pipeline.json"

    def spool(self, source: str) -> Path:
        """Return the spool folder of a source, for a broker that does not serve ranges."""
        return self.folder / "spool" / source

    def options(self, pipeline: Pipeline) -> dict[str, str]:
        """Return the options for connecting; a pipeline may set its own passwordEnv."""
        own = pipeline.options_of_source.items()
        variable = next((v for k, v in own if k.lower() == _VARIABLE_OPTION.lower()), None)
        variable = variable or self.password_env
        given = {
            "url": self.url,
            "user": self.user,
            _VARIABLE_OPTION: variable,
            "password": self.password if variable is None else None,
        }
        return {key: text for key, text in given.items() if text is not None}

    def source_options(self, pipeline: Pipeline, source: str, owner: str) -> dict[str, str]:
        """Return the options of one source of a pipeline."""
        limit = pipeline.max_messages_per_trigger
        return {
            **pipeline.options_of_source,
            **self.options(pipeline),
            "partitions": str(pipeline.partitions),
            "owner": owner,
            "spool": str(self.spool(source).absolute()),
            **({} if limit is None else {"maxMessagesPerTrigger": str(limit)}),
        }
