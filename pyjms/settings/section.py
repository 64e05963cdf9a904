"""The base of the sections of application.yaml."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict

from pyjms._yaml import DescribedModel
from pyjms.settings.values import read_text

__all__ = ["Section", "Text"]

Text = Annotated[str, BeforeValidator(read_text)]


class Section(DescribedModel):
    """A section: unknown keys are errors, values are read-only."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
