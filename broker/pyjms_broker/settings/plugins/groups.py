"""Lists of groups in broker.yaml."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from pyjms_broker.security.users import group_names

__all__ = ["Groups"]


def _read_groups(value: object) -> object:
    if isinstance(value, str):
        return group_names(value)
    return frozenset(value) if isinstance(value, list | tuple) else value


Groups: TypeAlias = Annotated[
    frozenset[str],
    BeforeValidator(_read_groups),
    PlainSerializer(lambda names: ",".join(sorted(names)), return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""Names of groups: `admins,users` or a list."""
