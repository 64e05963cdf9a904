"""Environment variables that look like settings and are none.

A setting's variable has `__` between the parts of its path, which Spring Boot's has not. One
without would be passed over, and a default hold in silence: so it is refused where it is clear
what was meant, and warned of else, since others may use names that begin so for their own ends.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, get_args, get_origin

from pydantic import BaseModel

from pyjms._yaml.document import Document, Origin
from pyjms._yaml.problems import _is_model, _members
from pyjms.errors import ConfigurationException

__all__ = ["OTHER_VARIABLES", "refuse_misspelt"]

logger = logging.getLogger(__name__)

OTHER_VARIABLES: Final[Mapping[str, str]] = {
    "PYJMS_CONFIG": "the YAML file of an application",
    "PYJMS_PROFILES": "the profiles, with commas between",
    "PYJMS_SPARK_DRAIN_FILE": "set for Spark's other processes: where a stop is announced",
    "PYJMS_SPARK_PASSWORD_*": "set for Spark's other processes: a broker's password",
    "PYJMS_SHARED": "tests: the folder of recorded behaviour",
    "PYJMS_ACTIVEMQ_URL": "tests: an ActiveMQ that runs already",
    "PYJMS_TEST_JAVA": "tests: the Java of Spark",
    "PYJMS_ROUNDS": "tests: how many rounds the nightly ones make",
    "PYJMS_CRASH_SEED": "tests: when a broker is killed",
    "PYJMS_BENCH_*": "benchmarks: what is measured",
    "PYJMS_BROKER_CMD": "benchmarks: how the broker is started",
    "PYJMS_BROKER_NP_CMD": "benchmarks: the same, without a store",
}
"""What begins so and is no setting; `*` is any text. Here is the only list of them."""

_IS_OTHER: Final = re.compile("|".join(re.escape(n).replace(r"\*", ".*") for n in OTHER_VARIABLES))
_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)")
_SERVICE: Final = "_SERVICE_HOST"
"""Kubernetes sets it, and others, for each service beside a program: `pyjms-broker` is likely."""
_DEEPEST: Final = 8
_NEAR: Final = 0.65
"""How much alike a misspelt name and a setting's are."""

_Path: TypeAlias = tuple[str | None, ...]
"""The keys that lead to a setting; None is any, where the names of entries are free."""


class _Setting(NamedTuple):
    """How a setting's variable is spelt, and what is taken for it; groups are free names."""

    variable: str
    pattern: re.Pattern[str]


def refuse_misspelt(
    environ: Mapping[str, str], prefix: str, model: type[BaseModel], document: Document
) -> None:
    """Refuse variables that begin with `prefix`, have no `__`, and are near to a setting's.

    Those of OTHER_VARIABLES do mean something, and what `${...}` of `document` names, and
    Kubernetes' service links; what is near to no setting is logged. `prefix` ends with one `_`:
    `PYJMS_`.

    Raises:
        ConfigurationException: there are such; a line each, which says what was meant.

    """
    wrong = sorted(_without_meaning(environ, prefix, document))
    if not wrong:
        return
    known = sorted(_settings(model, prefix), key=lambda setting: setting.variable.count("{"))
    problems: dict[str, str] = {}
    for name in wrong:
        meant = _meant(name, prefix, known)
        if meant is None:
            logger.warning("Environment variable %s is no setting: it is passed over", name)
        else:
            problems[name] = f"there is no such setting; did you mean {meant}?"
    if problems:
        origins = {name: Origin(f"environment variable {name}") for name in problems}
        raise ConfigurationException(
            "\n".join(f"{origins[name]}: {problem}" for name, problem in problems.items()),
            source=next(iter(origins.values())).source,
        )


def _without_meaning(environ: Mapping[str, str], prefix: str, document: Document) -> Iterator[str]:
    named = set(_PLACEHOLDER.findall(str(document.values)))
    services = [name.removesuffix(_SERVICE) for name in environ if name.endswith(_SERVICE)]
    links = tuple(f"{service}{end}" for service in services for end in ("_SERVICE_", "_PORT"))
    for name in environ:
        if (
            name.startswith(prefix)
            and "__" not in name
            and name not in named
            and not name.startswith(links)
            and not _IS_OTHER.fullmatch(name)
        ):
            yield name


def _meant(name: str, prefix: str, known: Iterable[_Setting]) -> str | None:
    """Return the variable of the setting that a name is for, as it seems; None: of none."""
    for setting in known:
        if found := setting.pattern.fullmatch(name):
            return setting.variable.format(*found.groups())
    fixed = [setting.variable for setting in known if "{" not in setting.variable]
    by_name = {variable.removeprefix(prefix).lstrip("_"): variable for variable in fixed}
    near = difflib.get_close_matches(name.removeprefix(prefix), by_name, n=1, cutoff=_NEAR)
    return by_name[near[0]] if near else None


def _settings(model: type[BaseModel], prefix: str) -> Iterator[_Setting]:
    whole = prefix if prefix.count("_") == 1 else f"{prefix}_"  # PYJMS_JMS__..., PYJMS_BROKER__...
    for path in _paths(model, ()):
        variable = "__".join("{}" if key is None else key.upper() for key in path)
        pattern = "_".join(
            "(.+?)" if key is None else key.upper().replace("_", "_?") for key in path
        )
        yield _Setting(whole + variable, re.compile(prefix + pattern))


def _paths(annotation: Any, path: _Path) -> Iterator[_Path]:
    """Return the ways to what is neither a section nor a list, from `annotation` on."""
    if _is_model(annotation) and len(path) < _DEEPEST:
        for key, field in annotation.model_fields.items():
            yield from _paths_of_value(field.annotation, (*path, field.alias or key))


def _paths_of_value(annotation: Any, path: _Path) -> Iterator[_Path]:
    if not _is_model(annotation) and get_origin(annotation) not in {dict, list, tuple}:
        yield path
    for one in _members(annotation):
        if _is_model(one):
            yield from _paths(one, path)
        elif len(get_args(one)) == 2:
            yield from _paths_of_value(get_args(one)[1], (*path, None))
