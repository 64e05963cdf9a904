"""The layers of a configuration: a file, overridden by its profiles and the environment.

The variable of a setting has `__` between the parts of its path, unlike in Spring Boot. A variable
without `__` would be ignored, and a default would apply silently. So it is an error if it is clear
which setting was meant; otherwise a warning is logged, because other programs may also use the
prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from pyjms.configuration.document import BROKER_PREFIX, Document, Origin, Path, Problems, merge
from pyjms.configuration.placeholders import expand
from pyjms.configuration.validation import is_model, models_and_containers
from pyjms.configuration.yaml_reader import read_yaml
from pyjms.errors import ConfigurationException, nearest_name
from pyjms.runtime.logging import get_logger

logger = get_logger(__name__)

PROFILES_VARIABLE: Final = "PYJMS_PROFILES"


def read_configuration(
    path: FilePath | None,
    environ: Mapping[str, str],
    prefix: str,
    model: type[BaseModel],
    problems: Problems,
    *,
    profiles: Iterable[str],
    all_profiles: bool = True,
) -> tuple[Document, Document]:
    """Return a configuration as written, and with its placeholders replaced; blocking.

    Args:
        path: the file; None: there is only the environment.
        environ: the environment variables.
        prefix: APPLICATION_PREFIX or BROKER_PREFIX; variables with it override the file.
        model: the settings, by which misspelt variables are recognized.
        problems: gets all problems; the documents have the remaining values.
        profiles: the chosen profiles.
        all_profiles: whether each of them must have a file.
    """
    written = Document()
    if path is not None:
        written = read_layers(path, profiles, problems, all_profiles=all_profiles)
    with problems.caught():
        refuse_misspelt_variables(environ, prefix, model, written)
    others = BROKER_PREFIX if prefix != BROKER_PREFIX else None
    written = overlay_environment(written, environ, prefix, exclude=others)
    return written, expand(written, environ, problems)


def chosen_profiles(profiles: Iterable[str] | None, environ: Mapping[str, str]) -> list[str]:
    """Return `profiles`, or those that PYJMS_PROFILES lists, separated by commas."""
    names = environ.get(PROFILES_VARIABLE, "").split(",") if profiles is None else profiles
    return [name.strip() for name in names if name.strip()]


def read_layers(
    path: FilePath, profiles: Iterable[str], problems: Problems, *, all_profiles: bool = True
) -> Document:
    """Read `NAME.yaml` overridden by `NAME-PROFILE.yaml` for each profile; later ones win.

    Without `all_profiles`, a profile need not have a file. Returns the valid values.
    """
    document = read_yaml(path, problems)
    for profile in profiles:
        layer = path.with_name(f"{path.stem}-{profile}{path.suffix}")
        if layer.is_file():
            document = merge(document, read_yaml(layer, problems))
        elif all_profiles:
            problems.lacks_files = True
            problems.add(
                ConfigurationException(
                    f"Profile {profile!r} has no file {layer}",
                    source=str(layer),
                    hint=f"create that file, or remove {profile!r} from the profiles",
                )
            )
    return document


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


RESERVED_VARIABLES: Final[Mapping[str, str]] = {
    "PYJMS_CONFIG": "the YAML file of an application",
    "PYJMS_ENCRYPTION_PASSWORD": "the password of encrypted values, ENC(...)",
    "PYJMS_MANAGEMENT_URL": "the management URL of `pyjms broker` commands",
    "PYJMS_PASSWORD": "the password of the command line",
    "PYJMS_PROFILES": "the profiles, separated by commas",
    "PYJMS_COMPILE": "asks the build of the wheel for the compiled one",
    "PYJMS_PURE": "1: import the sources of the compiled wheel instead of its extensions",
    "PYJMS_SPARK_DRAIN_FILE": "set for Spark's other processes: the file that announces a stop",
    "PYJMS_SPARK_PASSWORD_*": "set for Spark's other processes: a broker's password",
    "PYJMS_URL": "the broker's URL of the command line",
    "PYJMS_USER": "the user of the command line",
    "PYJMS_WORKER": "set for the processes of `pyjms run --workers`: their number, from 1",
}
"""Variables with the prefix that have a meaning but are not settings; `*` matches any text."""

_RESERVED: Final = re.compile(
    "|".join(re.escape(name).replace(r"\*", ".*") for name in RESERVED_VARIABLES)
)
_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)")
_SERVICE: Final = "_SERVICE_HOST"
"""Kubernetes sets such variables for each service; one called `pyjms-broker` is likely."""
_DEEPEST: Final = 8
_NEAR: Final = 0.65
"""The minimum similarity of a misspelt name to the name of a setting."""

_Path: TypeAlias = tuple[str | None, ...]
"""The keys of a setting's path; None stands for any key, where users choose the names."""


class _Setting(NamedTuple):
    """A setting's variable and a pattern of its misspellings; groups match user-chosen names."""

    variable: str
    pattern: re.Pattern[str]


def refuse_misspelt_variables(
    environ: Mapping[str, str], prefix: str, model: type[BaseModel], document: Document
) -> None:
    """Reject variables that begin with `prefix`, have no `__`, and resemble a setting's variable.

    RESERVED_VARIABLES, names used in `${...}` of `document` and Kubernetes' service links are
    ignored; variables that resemble no setting are logged.
    """
    start = prefix.replace("__", "_")
    wrong = sorted(_unexplained_variables(environ, start, document))
    if not wrong:
        return
    known = sorted(_settings(model, prefix, start), key=lambda setting: setting.variable.count("{"))
    problems: dict[str, str] = {}
    for name in wrong:
        meant = _meant(name, start, known)
        if meant is None:
            logger.warning("Environment variable %s is not a setting: it is ignored", name)
        else:
            problems[name] = f"there is no such setting; did you mean {meant}?"
    if problems:
        origins = {name: Origin(f"environment variable {name}") for name in problems}
        raise ConfigurationException(
            "\n".join(f"{origins[name]}: {problem}" for name, problem in problems.items()),
            source=next(iter(origins.values())).source,
        )


def _unexplained_variables(
    environ: Mapping[str, str], start: str, document: Document
) -> Iterator[str]:
    named = set(_PLACEHOLDER.findall(str(document.values)))
    services = [name.removesuffix(_SERVICE) for name in environ if name.endswith(_SERVICE)]
    links = tuple(f"{service}{end}" for service in services for end in ("_SERVICE_", "_PORT"))
    for name in environ:
        if (
            name.startswith(start)
            and "__" not in name
            and name not in named
            and not name.startswith(links)
            and not _RESERVED.fullmatch(name)
        ):
            yield name


def _meant(name: str, start: str, known: Iterable[_Setting]) -> str | None:
    """Return the variable that was probably meant by a name; None: it resembles no setting."""
    for setting in known:
        if found := setting.pattern.fullmatch(name):
            return setting.variable.format(*found.groups())
    fixed = [setting.variable for setting in known if "{" not in setting.variable]
    by_name = {variable.removeprefix(start).lstrip("_"): variable for variable in fixed}
    near = nearest_name(name.removeprefix(start), by_name, _NEAR)
    return by_name[near] if near else None


def _settings(model: type[BaseModel], prefix: str, start: str) -> Iterator[_Setting]:
    for path in _paths(model, ()):
        variable = "__".join("{}" if key is None else key.upper() for key in path)
        pattern = "_".join(
            "(.+?)" if key is None else key.upper().replace("_", "_?") for key in path
        )
        yield _Setting(prefix + variable, re.compile(start + pattern))


def _paths(annotation: Any, path: _Path) -> Iterator[_Path]:
    """Yield the paths below `annotation` of all values that are neither sections nor lists."""
    if is_model(annotation) and len(path) < _DEEPEST:
        for key, field in annotation.model_fields.items():
            yield from _paths_of_value(field.annotation, (*path, field.alias or key))


def _paths_of_value(annotation: Any, path: _Path) -> Iterator[_Path]:
    if not is_model(annotation) and get_origin(annotation) not in {dict, list, tuple}:
        yield path
    for one in models_and_containers(annotation):
        if is_model(one):
            yield from _paths(one, path)
        elif len(get_args(one)) == 2:
            yield from _paths_of_value(get_args(one)[1], (*path, None))
