"""Compare settings read at different times."""

from __future__ import annotations

from pydantic import BaseModel

__all__ = ["changed_keys", "is_same"]


def is_same(before: object, after: object) -> bool:
    """Whether two settings are equal, even if their plug-ins have different model classes."""
    return _plain(before) == _plain(after)


def changed_keys(key: str, before: object, after: object) -> list[str]:
    """Return the keys below `key` that differ: `web.port`, `connectors[0].uri`."""
    if is_same(before, after):
        return []
    if isinstance(before, BaseModel) and isinstance(after, BaseModel):
        names = type(before).model_fields
        if names.keys() == type(after).model_fields.keys():
            return [
                changed
                for name in names
                for changed in changed_keys(
                    f"{key}.{name}", getattr(before, name), getattr(after, name)
                )
            ]
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for i, pair in pairs for each in changed_keys(f"{key}[{i}]", *pair)]
    return [key]


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
