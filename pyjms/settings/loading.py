"""Loading the settings of an application from its file, whose layers `pyjms.configuration` reads.

Spring Boot's application.yml is no settings file here: an error says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pyjms.configuration.document import APPLICATION_PREFIX, Problems
from pyjms.configuration.document import Path as KeyPath
from pyjms.configuration.layers import chosen_profiles, read_configuration
from pyjms.configuration.placeholders import Placeholders
from pyjms.configuration.validation import valid_part
from pyjms.errors import ConfigurationException
from pyjms.settings.model import PyjmsSettings

CONFIG_VARIABLE: Final = "PYJMS_CONFIG"

_DEFAULT_PATHS: Final = ("application.yaml", "config/application.yaml")
_OTHER_PATHS: Final = ("application.yml", "config/application.yml")
_OF_SPRING: Final = re.compile(r"^spring\s*[.:]", re.MULTILINE)

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

    Example:
        settings = load_settings(environ={"PYJMS_ACTIVEMQ__USER": "shop"})
        assert settings.activemq.user == "shop"
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
    path = _find(config, environment, problems)
    chosen = chosen_profiles(profiles, environment)
    if path is None and chosen:
        problems.lacks_files = True
        problems.add(
            ConfigurationException(
                f"Profiles {', '.join(chosen)} are set, but there is no application.yaml",
                hint=f"name the file with --config or {CONFIG_VARIABLE}",
            )
        )
    document, expanded = read_configuration(
        path, environment, APPLICATION_PREFIX, PyjmsSettings, problems, profiles=chosen
    )
    settings = valid_part(PyjmsSettings, expanded, _translate_spring_key, problems)
    settings.use_document(document, Placeholders(document.values, environment), problems)
    return settings


def _translate_spring_key(path: KeyPath) -> str | None:
    from pyjms.settings.spring import translate_spring_key  # noqa: PLC0415 - for unknown keys only

    return translate_spring_key(path)


def _find(config: Path | str | None, environ: Mapping[str, str], problems: Problems) -> Path | None:
    """Return the file; a file of Spring Boot's name, which would not be read, is a problem."""
    named = config or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    for other in filter(Path.is_file, map(Path, _OTHER_PATHS)):
        right = other.with_suffix(".yaml")
        is_of_spring = _OF_SPRING.search(other.read_text(encoding="utf-8", errors="replace"))
        problems.lacks_files = True
        problems.add(
            ConfigurationException(
                f"{other} is not read: settings are in {right}",
                source=str(other),
                hint=f"convert it: pyjms config convert {other} --output {right}, and remove it"
                if is_of_spring
                else f"rename it to {right}, or name it with --config or {CONFIG_VARIABLE}",
            )
        )
    return next((path for path in map(Path, _DEFAULT_PATHS) if path.is_file()), None)


def settings_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of the keys and values that load_settings accepts."""
    schema = PyjmsSettings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_EXAMPLE: Final = "application.yaml"


def example_text() -> str:
    """Return an application.yaml with every key, its default and its explanation."""
    installed = Path(__file__).with_name(_EXAMPLE)
    in_checkout = Path(__file__).parents[2] / "config" / _EXAMPLE
    file = installed if installed.is_file() else in_checkout
    return without_schema_line(file.read_text(encoding="utf-8"))


def without_schema_line(text: str) -> str:
    """Return a reference without the line that tells editors of a file in the checkout."""
    return "".join(text.splitlines(keepends=True)[2:])
