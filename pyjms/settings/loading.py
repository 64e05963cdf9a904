"""Loading the settings of an application from its file, whose layers `pyjms.configuration` reads.

An unknown key that Spring Boot has gets an error with its name here, or with the reason why there
is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from pyjms.configuration.document import APPLICATION_PREFIX, Problems, dotted_path
from pyjms.configuration.document import Path as KeyPath
from pyjms.configuration.layers import chosen_profiles, read_configuration
from pyjms.configuration.placeholders import Placeholders
from pyjms.configuration.validation import valid_part
from pyjms.errors import ConfigurationException
from pyjms.settings.model import PyjmsSettings

__all__ = ["collect_problems", "load_settings", "settings_schema"]

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
    document, expanded = read_configuration(
        path, environment, APPLICATION_PREFIX, PyjmsSettings, problems, profiles=chosen
    )
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


_OUR_NAMES: Final = frozenset(
    {
        "jms.pub_sub_domain", "jms.subscription_durable", "jms.client_id", "jms.cache.enabled",
        "jms.cache.consumers", "jms.cache.producers", "jms.cache.session_cache_size",
        "jms.listener.auto_startup", "jms.listener.min_concurrency",
        "jms.listener.max_concurrency", "jms.listener.receive_timeout",
        "jms.listener.max_messages_per_task", "jms.listener.session.acknowledge_mode",
        "jms.listener.session.transacted", "jms.template.default_destination",
        "jms.template.delivery_mode", "jms.template.priority", "jms.template.time_to_live",
        "jms.template.qos_enabled", "jms.template.delivery_delay",
        "jms.template.receive_timeout", "jms.template.session.acknowledge_mode",
        "jms.template.session.transacted", "activemq.broker_url", "activemq.user",
        "activemq.password", "activemq.embedded.enabled", "activemq.close_timeout",
        "activemq.send_timeout", "activemq.non_blocking_redelivery", "activemq.pool.enabled",
        "activemq.pool.block_if_full", "activemq.pool.block_if_full_timeout",
        "activemq.pool.idle_timeout", "activemq.pool.max_connections",
        "activemq.pool.max_sessions_per_connection", "activemq.pool.time_between_expiration_check",
        "activemq.pool.use_anonymous_producers", "activemq.pool.expiry_timeout",
        "activemq.pool.create_connection_on_startup", "activemq.pool.reconnect_on_exception",
    }
)  # fmt: skip

_OLD_NAMES: Final = {
    "jms.listener.concurrency": "jms.listener.min_concurrency",
    "jms.listener.acknowledge_mode": "jms.listener.session.acknowledge_mode",
    "activemq.in_memory": "activemq.embedded.enabled",
    "activemq.pool.maximum_active_session_per_connection": (
        "activemq.pool.max_sessions_per_connection"
    ),
}

_ABSENT: Final = (
    ("jms.jndi_name", "there is no JNDI in Python; write activemq.broker_url"),
    ("activemq.packages", "objects are never unpickled, so there are no packages to trust"),
    ("artemis", "Artemis speaks OpenWire: write its URL as activemq.broker_url"),
    ("management", "health checks are at health.port, metrics are in observability"),
    ("logging.level", "write the loggers directly below logging, such as logging: {root: INFO}"),
)


def translate_spring_key(path: KeyPath) -> str | None:
    """Return the explanation for an unknown key that Spring Boot has; None for other keys."""
    name = _ours(dotted_path(path))
    spring = f"Spring Boot's {dotted_path(path)}"
    ours = _OLD_NAMES.get(name, name)
    if ours in _OUR_NAMES and ours != dotted_path(path):
        return f"{spring} is {ours} here"
    for prefix, reason in _ABSENT:
        if name == prefix or name.startswith(f"{prefix}."):
            return f"{spring} does not exist here: {reason}"
    return None


def _ours(name: str) -> str:
    """Return a Spring Boot name in our spelling: no prefix, snake_case."""
    name = name.removeprefix("spring.")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")
