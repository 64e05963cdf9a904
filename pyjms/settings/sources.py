"""The sources of settings: a file, its profiles, the environment on top, `${...}` last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pyjms._yaml import (
    Document,
    Placeholders,
    chosen_profiles,
    expand,
    overlay_environment,
    read_layers,
    refuse_misspelt_variables,
    validate,
)
from pyjms.errors import ConfigurationException
from pyjms.settings.errors import translate_spring_key
from pyjms.settings.model import PyjmsSettings

__all__ = ["BROKER_PREFIX", "CONFIG_VARIABLE", "PREFIX", "load_settings"]

PREFIX: Final = "PYJMS_"
"""`PYJMS_JMS__LISTENER__MAX_CONCURRENCY` is `jms.listener.max_concurrency`."""
BROKER_PREFIX: Final = "PYJMS_BROKER__"
"""Variables with this prefix belong to broker.yaml."""
CONFIG_VARIABLE: Final = "PYJMS_CONFIG"

_DEFAULT_PATHS: Final = ("application.yaml", "config/application.yaml")


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
            begins with PYJMS_, has no `__`, and is not one of RESERVED_VARIABLES.
    """
    environment = os.environ if environ is None else environ
    path = _find(config, environment)
    chosen = chosen_profiles(profiles, environment)
    if path is None and chosen:
        raise ConfigurationException(
            f"Profiles {', '.join(chosen)} are set, but there is no application.yaml",
            hint=f"name the file with --config or {CONFIG_VARIABLE}",
        )
    document = read_layers(path, chosen) if path else Document()
    refuse_misspelt_variables(environment, PREFIX, PyjmsSettings, document)
    document = overlay_environment(document, environment, PREFIX, exclude=BROKER_PREFIX)
    settings = validate(PyjmsSettings, expand(document, environment), translate_spring_key)
    settings.use_placeholders(Placeholders(document.values, environment))
    return settings


def _find(config: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    named = config or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    return next((path for path in map(Path, _DEFAULT_PATHS) if path.is_file()), None)
