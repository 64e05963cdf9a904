"""The sources of settings: a file, overridden by its profiles and the environment; `${...}` last.

And the schema of that file, for editors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pyjms._yaml import (
    Document,
    Placeholders,
    Problems,
    chosen_profiles,
    expand,
    overlay_environment,
    read_layers,
    refuse_misspelt_variables,
    valid_part,
)
from pyjms.errors import ConfigurationException
from pyjms.settings.errors import translate_spring_key
from pyjms.settings.model import PyjmsSettings

__all__ = [
    "BROKER_PREFIX",
    "CONFIG_VARIABLE",
    "PREFIX",
    "collect_problems",
    "load_settings",
    "settings_schema",
]

PREFIX: Final = "PYJMS_"
"""`PYJMS_JMS__LISTENER__MAX_CONCURRENCY` is `jms.listener.max_concurrency`."""
BROKER_PREFIX: Final = "PYJMS_BROKER__"
"""Variables with this prefix belong to broker.yaml."""
CONFIG_VARIABLE: Final = "PYJMS_CONFIG"

_DEFAULT_PATHS: Final = ("application.yaml", "config/application.yaml")

_collection: ContextVar[Problems | None] = ContextVar("collected problems", default=None)


@contextmanager
def collect_problems(problems: Problems) -> Iterator[None]:
    """Have `load_settings` add to `problems`, and return the valid part of the settings.

    Those of an application that a module creates while it is imported are read like this, too.
    """
    token = _collection.set(problems)
    try:
        yield
    finally:
        _collection.reset(token)


def load_settings(
    config: Path | str | None = None,
    profiles: Iterable[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> PyjmsSettings:
    """Read the settings; blocking, once at start.

    The file is `config`, else PYJMS_CONFIG, else ./application.yaml, else
    ./config/application.yaml, else none. `profiles`, else PYJMS_PROFILES (separated by commas),
    name files next to it: application-PROFILE.yaml; the last is uppermost. Environment variables
    override the files. `environ` is the environment, `os.environ` by default.

    Raises:
        ConfigurationException: a file is missing or malformed, a key is unknown or has a
            wrong value, a placeholder cannot be resolved; with file and line. Or a variable
            begins with PYJMS_, has no `__`, and is not one of RESERVED_VARIABLES. All problems
            are reported at once.
    """
    collection = _collection.get()
    problems = Problems()
    settings = _read(config, profiles, os.environ if environ is None else environ, problems)
    if collection is None:
        problems.raise_all()
    else:
        collection.extend(problems)
    return settings


def _read(
    config: Path | str | None,
    profiles: Iterable[str] | None,
    environment: Mapping[str, str],
    problems: Problems,
) -> PyjmsSettings:
    """Return the valid part of the settings, and add the errors to `problems`."""
    path = _find(config, environment)
    chosen = chosen_profiles(profiles, environment)
    if path is None and chosen:
        problems.lacks_files = True
        problems.add(
            ConfigurationException(
                f"Profiles {', '.join(chosen)} are set, but there is no application.yaml",
                hint=f"name the file with --config or {CONFIG_VARIABLE}",
            )
        )
    document = read_layers(path, chosen, problems=problems) if path else Document()
    with problems.caught():
        refuse_misspelt_variables(environment, PREFIX, PyjmsSettings, document)
    document = overlay_environment(document, environment, PREFIX, exclude=BROKER_PREFIX)
    expanded = expand(document, environment, problems)
    settings = valid_part(PyjmsSettings, expanded, translate_spring_key, problems)
    settings.use_document(document, Placeholders(document.values, environment), problems)
    return settings


def _find(config: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    named = config or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return next((path for path in map(Path, _DEFAULT_PATHS) if path.is_file()), None)


def settings_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the keys and values that load_settings accepts."""
    schema = PyjmsSettings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
