"""Classes named in settings: `module.Class`."""

from __future__ import annotations

import importlib

from pyjms.errors import ConfigurationException


def imported_class(name: str, setting: str = "") -> type:
    """Import the class `name`, given as `module.Class`. Blocks while it imports."""
    prefix = f"{setting}: " if setting else ""
    module, dot, attribute = name.rpartition(".")
    try:
        found: object = getattr(importlib.import_module(module), attribute) if dot else None
    except (ImportError, AttributeError) as error:
        raise ConfigurationException(
            f"{prefix}the class {name!r} cannot be imported: {error}",
            hint="write module.Class, and run where that module can be imported",
        ) from error
    if not isinstance(found, type):
        raise ConfigurationException(f"{prefix}{name!r} is not a class", hint="write module.Class")
    return found
