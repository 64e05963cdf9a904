"""The section `logging`: levels of loggers, and how lines look."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["LoggingSettings"]

LevelName = Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"]
Level = Annotated[LevelName, BeforeValidator(lambda value: str(value).upper())]


class LoggingSettings(BaseModel):
    """How `pyjms run` logs (`logging`): further keys are names of loggers, with their levels."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, Level] = Field(init=False)

    format: Literal["text", "json"] = "text"
    """text, or json: one object for each line, with the message that is being handled."""
    tracebacks: bool = False
    """Whether the first failure of a message is logged with the handler's traceback, too."""

    @property
    def levels(self) -> dict[str, str]:
        """The levels by logger name; root: all loggers."""
        return dict(self.__pydantic_extra__)
