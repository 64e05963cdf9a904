"""The layers of a configuration: the file, its profiles, and the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from pyjms._yaml.collection import Problems, collected_in
from pyjms._yaml.document import Document, Origin, Path, merge
from pyjms._yaml.reader import read_yaml
from pyjms.errors import ConfigurationException

__all__ = ["PROFILES_VARIABLE", "chosen_profiles", "overlay_environment", "read_layers"]

PROFILES_VARIABLE: Final = "PYJMS_PROFILES"


def chosen_profiles(profiles: Iterable[str] | None, environ: Mapping[str, str]) -> list[str]:
    """Return `profiles`, or those that PYJMS_PROFILES lists, separated by commas."""
    names = environ.get(PROFILES_VARIABLE, "").split(",") if profiles is None else profiles
    return [name.strip() for name in names if name.strip()]


def read_layers(
    path: FilePath,
    profiles: Iterable[str],
    *,
    all_profiles: bool = True,
    problems: Problems | None = None,
) -> Document:
    """Read `NAME.yaml` overridden by `NAME-PROFILE.yaml` for each profile; later ones win.

    Without `all_profiles`, a profile need not have a file. If `problems` is given, problems are
    added to it, and the remaining values are returned.

    Raises:
        ConfigurationException: a file is missing or malformed.

    """
    with collected_in(problems) as found:
        document = read_yaml(path, found)
        for profile in profiles:
            layer = path.with_name(f"{path.stem}-{profile}{path.suffix}")
            if layer.is_file():
                document = merge(document, read_yaml(layer, found))
            elif all_profiles:
                found.lacks_files = True
                found.add(_no_file(profile, layer))
    return document


def _no_file(profile: str, layer: FilePath) -> ConfigurationException:
    return ConfigurationException(
        f"Profile {profile!r} has no file {layer}",
        source=str(layer),
        hint=f"create that file, or remove {profile!r} from the profiles",
    )


def overlay_environment(
    document: Document, environ: Mapping[str, str], prefix: str, exclude: str | None = None
) -> Document:
    """Return `document` overridden by the variables `prefix` + path: `PYJMS_JMS__CLIENT_ID`.

    Path elements are joined by `__`; variables without `__` and those that start with `exclude`
    are ignored. A path element matches an existing key regardless of case, `-` and `.`.
    """
    for variable in sorted(environ):
        name = variable.removeprefix(prefix)
        if name == variable or "__" not in variable or (exclude and variable.startswith(exclude)):
            continue
        path: list[str] = []
        level: Any = document.values
        for element in name.split("__"):
            key = _existing_key(level, element)
            path.append(key)
            level = level.get(key) if isinstance(level, dict) else None
        value: Any = environ[variable]
        for key in reversed(path):
            value = {key: value}
        origin = Origin(f"environment variable {variable}")
        paths: list[Path] = [tuple(path[: end + 1]) for end in range(len(path))]
        new = {p: origin for p in paths if p not in document.origins or p == paths[-1]}
        document = merge(document, Document(value, new))
    return document


def _existing_key(level: object, element: str) -> str:
    plain = element.lower()
    if isinstance(level, dict):
        for key in level:
            if re.sub(r"[-.]", "_", str(key)).lower() == plain:
                return str(key)
    return plain
