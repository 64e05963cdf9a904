"""The JSON Schema of application.yaml, for editors."""

from __future__ import annotations

from typing import Any

from pyjms.settings.model import PyjmsSettings

__all__ = ["settings_schema"]


def settings_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the keys and values that load_settings accepts."""
    schema = PyjmsSettings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
