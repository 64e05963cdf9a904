"""The section `logging` of both YAML files: format, levels by logger, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from pyjms.configuration.section import Bytes, DescribedModel, Section
from pyjms.runtime.logging import LogFormat

LevelName = Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"]
Level = Annotated[
    LevelName,
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]


class LogFileSettings(Section):
    """A file of the log."""

    path: Path
    """The file; its directory is created. Relative paths begin in the working directory."""
    format: LogFormat | None = None
    """text or json; not set: that of the section logging."""
    rotate: Literal["size", "daily", "never"] = "size"
    """When the file is renamed: size, daily, or never: others do it, and a new one is opened."""
    maximum_size: Bytes = Field(default=10 * 1024 * 1024, ge=1024)
    """Size at which the file is renamed, with rotate: size."""
    keep: int = Field(default=7, ge=1)
    """Number of renamed files that are kept, with rotate: size or daily."""


def _with_path(value: object) -> object:
    """Return the settings of a file that is given as its path alone."""
    return {"path": value} if isinstance(value, str) else value


LogFile: TypeAlias = Annotated[
    LogFileSettings, BeforeValidator(_with_path, json_schema_input_type=str | LogFileSettings)
]


class LoggingSettings(DescribedModel):
    """The log (`logging`); all other keys are logger names with their levels."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Level] = Field(init=False)

    format: LogFormat = "text"
    """text, or json: one object per line, with the message, destination or client as fields."""
    stderr: bool = True
    """Whether the log is written to the standard error; false needs a file."""
    file: LogFile | None = None
    """A file to which the log is written as well: its path, or a section."""

    @property
    def levels(self) -> dict[str, str]:
        """The levels by logger name; root: all loggers."""
        return dict(self.__pydantic_extra__)

    def formats(self, given: LogFormat | None = None) -> set[LogFormat]:
        """Return the formats in use; `given` is that of a command's option."""
        own = given or self.format
        return {own} if self.file is None else {own, self.file.format or own}

    @model_validator(mode="after")
    def _check_outputs(self) -> Self:
        if not self.stderr and self.file is None:
            raise ValueError("stderr is false and there is no file: the log would be lost")
        return self
