"""Reading broker.yaml: its profiles, environment variables and placeholders; extensions in use.

BrokerSettings contains only the built-in ones. For a document that uses others, a subclass is
created whose `plugins`, `persistence` and `policies` accept these types, so that their settings are
checked like the built-in ones, with file and line.

`plugins` is either a list (`- type: NAME` with settings, or only `- NAME`) or a mapping of names to
settings, like the elements of ActiveMQ's `<plugins>`. Profiles and environment variables can
override the keys of a mapping; a list can contain the same plug-in twice.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeGuard, get_args

from pydantic import BaseModel, Field, create_model

from pyjms.configuration.document import BROKER_PREFIX, Document, Problems
from pyjms.configuration.layers import chosen_profiles, read_configuration
from pyjms.configuration.validation import validate
from pyjms.errors import ConfigurationException
from pyjms.transport.registry import UNSUPPORTED
from pyjms.transport.uri import TransportURI, did_you_mean
from pyjms_broker import entry_points
from pyjms_broker.connector.registry import BUILT_IN_SCHEMES, known_schemes
from pyjms_broker.settings.model import BrokerSettings
from pyjms_broker.settings.persistence import BUILT_IN_TYPES, replacement_for
from pyjms_broker.settings.policies import (
    BUILT_IN_RECOVERY_POLICIES,
    PolicySettings,
    RecoverySettings,
    load_message_query,
)

_Path = tuple[str | int, ...]
_RECOVERY_KEY: Final = "subscription_recovery_policy"
_PLUGIN: Final = "a pydantic model with a method install_plugin(broker)"
_STORE: Final = "a pydantic model with a method create(directory, broker_name)"
_RECOVERY_POLICY: Final = "a pydantic model with a method build()"
_EXPECTED: Final = {
    entry_points.PLUGINS: ("install_plugin", _PLUGIN),
    entry_points.STORES: ("create", _STORE),
    entry_points.RECOVERY_POLICIES: ("build", _RECOVERY_POLICY),
}


def with_plugin_list(document: Document) -> Document:
    """Return the document with its plug-ins as a list of mappings."""
    written = document.values.get("plugins")
    listed: list[object] = []
    moved: dict[_Path, _Path] = {}
    if isinstance(written, dict):
        for index, (name, settings) in enumerate(written.items()):
            listed.append(_plugin(name, {} if settings is None else settings))
            moved["plugins", name] = ("plugins", index)
    elif isinstance(written, list):
        listed = [_plugin(each, {}) if isinstance(each, str) else each for each in written]
    else:
        return document
    origins = {_move(path, moved): origin for path, origin in document.origins.items()}
    return Document({**document.values, "plugins": listed}, origins)


def _plugin(name: object, settings: object) -> object:
    return {"type": name, **settings} if isinstance(settings, dict) else settings


def _move(path: _Path, moved: Mapping[_Path, _Path]) -> _Path:
    start = moved.get(path[:2])
    return path if start is None else (*start, *path[2:])


def model_for(document: Document, problems: Problems) -> type[BrokerSettings]:
    """Return the settings model for a document.

    Plug-ins, stores and connectors that are not installed or cannot be loaded are added to
    `problems`, with file and line.
    """
    _check_connectors(document, problems)
    fields: dict[str, Any] = {}
    plugins = _plugin_types(document, problems)
    models = _load_all(document, plugins, entry_points.PLUGINS, problems)
    if models:
        item: Any = _union(models)
        fields["plugins"] = (tuple[item, ...], ())
    policy: Any = _policy_model(document, problems)
    if policy is not PolicySettings:
        fields["policies"] = (tuple[policy, ...], ())
    persistence = document.values.get("persistence")
    kind = persistence.get("type") if isinstance(persistence, dict) else None
    if _is_installed(kind, entry_points.STORES, BUILT_IN_TYPES):
        used: dict[str, _Path] = {kind: ("persistence", "type")}
        for store in _load_all(document, used, entry_points.STORES, problems):
            fields["persistence"] = (store, ...)
    if not fields:
        return BrokerSettings
    return create_model("BrokerSettings", __base__=BrokerSettings, **fields)


def _plugin_types(document: Document, problems: Problems) -> dict[str, _Path]:
    """Return the names of the plug-ins in a document, with the path of each."""
    plugins = document.values.get("plugins")
    found: dict[str, _Path] = {}
    for index, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str):
            known = ", ".join(_known_names(entry_points.PLUGINS))
            problem = document.problem(
                ("plugins", index),
                "a plug-in is a name, or a mapping with a type and its settings",
                hint=f"write - type: NAME; there are {known}",
            )
            problems.add_at(("plugins", index), problem)
            continue
        found.setdefault(kind, ("plugins", index, "type"))
    return found


def _policy_model(document: Document, problems: Problems) -> type[PolicySettings]:
    """Return the model of policies, including the installed recovery policies in use."""
    used: dict[str, _Path] = {}
    policies = document.values.get("policies")
    for index, policy in enumerate(policies if isinstance(policies, list) else ()):
        recovery = policy.get(_RECOVERY_KEY) if isinstance(policy, dict) else None
        if not isinstance(recovery, dict):
            continue
        kind, path = recovery.get("type"), ("policies", index, _RECOVERY_KEY)
        if kind == "query_based":
            _check_query(document, recovery.get("query"), (*path, "query"), problems)
        elif _is_installed(kind, entry_points.RECOVERY_POLICIES, BUILT_IN_RECOVERY_POLICIES):
            used.setdefault(kind, (*path, "type"))
    models = _load_all(document, used, entry_points.RECOVERY_POLICIES, problems)
    if not models:
        return PolicySettings
    built_in = get_args(RecoverySettings)[0]
    either: Any = Annotated[_members(models) | built_in, Field(discriminator="type")]
    return create_model(
        "PolicySettings",
        __base__=PolicySettings,
        subscription_recovery_policy=(either | None, None),
    )


def _check_query(document: Document, name: object, path: _Path, problems: Problems) -> None:
    if not isinstance(name, str):
        return  # the model reports it
    try:
        load_message_query(name)
    except ConfigurationException as error:
        near = did_you_mean(name, entry_points.installed_names(entry_points.QUERIES))
        problems.add_at(path, document.problem(path, error.reason, hint=near or error.hint))


def _load_all(
    document: Document, used: Mapping[str, _Path], group: str, problems: Problems
) -> list[type[BaseModel]]:
    """Return the models of the types in use; add those that cannot be loaded to `problems`."""
    models = []
    for name, path in used.items():
        try:
            models.append(_load(document, name, path, group))
        except ConfigurationException as error:
            problems.add_at(path[:-1], error)
    return models


def _load(document: Document, name: str, path: _Path, group: str) -> type[BaseModel]:
    if name in _built_in(group):
        from pyjms_broker.settings.plugins import plugin_settings  # noqa: PLC0415 - as below

        return plugin_settings(name)
    method, expected = _EXPECTED[group]
    try:
        loaded = entry_points.load(group, name)
        ok = (
            isinstance(loaded, type)
            and issubclass(loaded, BaseModel)
            and callable(getattr(loaded, method, None))
            and not inspect.isabstract(loaded)
        )
        entry_points.check_loaded(group, name, ok, expected)
    except ConfigurationException as error:
        near = did_you_mean(name, _known_names(group))
        raise document.problem(path, error.reason, hint=near or error.hint) from error
    assert isinstance(loaded, type)
    kind: Any = Literal[name]
    return create_model(loaded.__name__, __base__=loaded, type=(kind, name))


def _known_names(group: str) -> list[str]:
    """Return the names of a group, built-in ones first."""
    return [*_built_in(group), *entry_points.installed_names(group)]


def _built_in(group: str) -> Iterable[str]:
    """Return the built-in plug-ins; of other groups, `BrokerSettings` has the built-in types."""
    if group != entry_points.PLUGINS:
        return ()
    # imported for the first plug-in: many configurations have none
    from pyjms_broker.settings.plugins import BUILT_IN_PLUGINS  # noqa: PLC0415

    return BUILT_IN_PLUGINS


def _is_installed(name: object, group: str, built_in: Container[str]) -> TypeGuard[str]:
    """Return whether a type is an installed one, without a search if it is built in."""
    return (
        isinstance(name, str)
        and name not in built_in
        and name in entry_points.installed_names(group)
    )


def _union(models: Sequence[type[BaseModel]]) -> Any:
    if len(models) == 1:
        return models[0]
    return Annotated[_members(models), Field(discriminator="type")]


def _members(models: Sequence[type[BaseModel]]) -> Any:
    return reduce(or_, models)


def _check_connectors(document: Document, problems: Problems) -> None:
    connectors = document.values.get("connectors")
    for index, connector in enumerate(connectors if isinstance(connectors, list) else ()):
        is_section = isinstance(connector, dict)
        uri = connector.get("uri") if is_section else connector
        if not isinstance(uri, str):
            continue  # the model reports it
        where = ("connectors", index, "uri") if is_section else ("connectors", index)
        try:
            _check_scheme(TransportURI.parse(uri).scheme)
        except ConfigurationException as error:
            problems.add_at(where, document.problem(where, error.reason, hint=error.hint))


def _check_scheme(scheme: str) -> None:
    if scheme in BUILT_IN_SCHEMES or scheme in (known := known_schemes()):
        return
    if scheme in UNSUPPORTED:
        refusal = UNSUPPORTED[scheme]
        raise ConfigurationException(f"{scheme}: {refusal.reason}", hint=refusal.hint)
    raise ConfigurationException(
        f"there is no connector for {scheme}://",
        hint=f"installed connectors: {', '.join(known)}; write for example tcp://0.0.0.0:61616",
    )


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
    _, document = read_configuration(
        None if path is None else Path(path),
        environment,
        BROKER_PREFIX,
        BrokerSettings,
        problems,
        profiles=chosen_profiles(profiles, environment),
        all_profiles=profiles is not None,
    )
    settings = build_settings(document, problems)
    if path is None:
        return settings
    again = partial(load_broker_settings, path, profiles, environ)
    return settings.read_from(Path(path), again)


def build_settings(document: Document, problems: Problems | None = None) -> BrokerSettings:
    """Return the settings of a document with resolved placeholders.

    `problems` has the problems of earlier stages.
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
