"""The base of the sections of application.yaml."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict

from pyjms.configuration import DescribedModel
from pyjms.enums import AcknowledgeMode, DeliveryMode

__all__ = [
    "Section",
    "Text",
    "read_acknowledge_mode",
    "read_delivery_mode",
    "read_option",
    "read_text",
]

# --- Values with more than one spelling, as Spring Boot accepts them.

_ACKNOWLEDGE_MODES = {
    "auto": AcknowledgeMode.AUTO,
    "client": AcknowledgeMode.CLIENT,
    "dupsok": AcknowledgeMode.DUPS_OK,
}
_DELIVERY_MODES = {
    "persistent": DeliveryMode.PERSISTENT,
    "nonpersistent": DeliveryMode.NON_PERSISTENT,
}


def read_acknowledge_mode(value: object) -> AcknowledgeMode:
    """Return the mode: auto, client, dups_ok or a number; case, `-` and `_` do not matter.

    Raises:
        ValueError: it is none of these.
    """
    text = str(value)
    mode = _ACKNOWLEDGE_MODES.get(_bare(text))
    if mode is not None:
        return mode
    try:
        return AcknowledgeMode(int(text))
    except ValueError:
        raise ValueError(
            f"'{text}' is neither a known acknowledge mode (auto, client, or dups_ok) "
            "nor an integer value"
        ) from None


def read_delivery_mode(value: object) -> DeliveryMode:
    """Return the mode: persistent or non-persistent; case, `-` and `_` do not matter.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, DeliveryMode):
        return value
    mode = _DELIVERY_MODES.get(_bare(str(value)))
    if mode is None:
        raise ValueError(f"{str(value)!r} is neither persistent nor non_persistent")
    return mode


def read_text(value: object) -> object:
    """Return a number that was written without quotes as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def read_option(value: object) -> object:
    """Return a number or boolean that was written without quotes as text in Spark's spelling."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _bare(text: str) -> str:
    return re.sub(r"[-_\s]", "", text).lower()


Text = Annotated[str, BeforeValidator(read_text)]


class Section(DescribedModel):
    """A section: unknown keys are errors, values are read-only."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
