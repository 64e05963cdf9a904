"""Read broker.yaml, its profiles, `${...}` placeholders and `PYJMS_BROKER__` variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyjms._yaml import (
    Document,
    Problems,
    chosen_profiles,
    expand,
    overlay_environment,
    read_layers,
    refuse_misspelt_variables,
    validate,
)
from pyjms_broker.settings.installed import model_for, with_plugin_list
from pyjms_broker.settings.kahadb_attributes import replacement_for
from pyjms_broker.settings.model import BrokerSettings
from pyjms_broker.settings.persistence import BUILT_IN_TYPES

__all__ = ["ENVIRONMENT_PREFIX", "broker_schema", "load_broker_settings", "validated"]

ENVIRONMENT_PREFIX: Final = "PYJMS_BROKER__"
"""`PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT` sets `system_usage.memory_limit`."""


def load_broker_settings(
    path: Path | str | None = None,
    profiles: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Read the broker's settings; blocking, once at start.

    Args:
        path: the file; None: only the environment is used.
        profiles: for each, `broker-PROFILE.yaml` next to the file is added; None: those of
            PYJMS_PROFILES, whose files may be missing.
        environ: the environment; `os.environ` by default.

    Raises:
        ConfigurationException: a file is missing or malformed, a key is unknown, a value is
            invalid, or a placeholder cannot be resolved. All problems are reported at once, with
            file and line.
    """
    environment = os.environ if environ is None else environ
    profiles = None if profiles is None else tuple(profiles)  # a reload iterates over it again
    problems = Problems()
    document = Document()
    if path is not None:
        names = chosen_profiles(profiles, environment)
        document = read_layers(
            Path(path), names, all_profiles=profiles is not None, problems=problems
        )
    with problems.caught():
        refuse_misspelt_variables(
            environment, ENVIRONMENT_PREFIX.removesuffix("_"), BrokerSettings, document
        )
    document = overlay_environment(document, environment, ENVIRONMENT_PREFIX)
    settings = validated(expand(document, environment, problems), problems)
    if path is None:
        return settings
    again = partial(load_broker_settings, path, profiles, environ)
    return settings.read_from(Path(path), again)


def validated(document: Document, problems: Problems | None = None) -> BrokerSettings:
    """Return the settings of a document with resolved placeholders.

    `problems` has the problems of earlier stages.

    Raises:
        ConfigurationException: there are problems; the error has the origin of each value.
    """
    found = Problems() if problems is None else problems
    listed = with_plugin_list(document)
    return validate(model_for(listed, found), listed, _translate, found)


def broker_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of broker.yaml."""
    schema = BrokerSettings.model_json_schema()
    # stores of other distributions have other settings
    persistence = schema["properties"]["persistence"]
    others = {"type": {"not": {"enum": list(BUILT_IN_TYPES)}}}
    persistence["anyOf"].append({"type": "object", "properties": others, "required": ["type"]})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _translate(path: tuple[str | int, ...]) -> str | None:
    key = replacement_for(str(path[-1])) if path[0] == "persistence" else None
    return None if key is None else f"there is no such setting; write {key}"
