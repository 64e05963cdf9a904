"""Loading of applications: from `MODULE[:APP]` on the command line to a JmsApplication."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from pyjms.app import JmsApplication
from pyjms.errors import ConfigurationException

__all__ = ["load_application", "load_module"]


def load_application(target: str, config: Path | None) -> JmsApplication:
    """Import MODULE and return APP, its only JmsApplication, or a new one with its handlers.

    Raises:
        ConfigurationException: module or application do not exist, or the choice is ambiguous; or
            `--config` was given with an application that the module creates itself.
    """
    module_name, _, name = target.partition(":")
    module = load_module(module_name)
    apps = {k: v for k, v in vars(module).items() if isinstance(v, JmsApplication)}
    if name:
        if name not in apps:
            raise ConfigurationException(
                f"{module_name} has no JmsApplication {name!r}",
                hint=f"it has {', '.join(apps) or 'none'}",
            )
        return _own(apps[name], config)
    if len(apps) > 1:
        raise ConfigurationException(
            f"{module_name} has several applications",
            hint=f"name one of them: {', '.join(f'{module_name}:{app}' for app in apps)}",
        )
    if apps:
        return _own(next(iter(apps.values())), config)
    return JmsApplication(module, config=config)


def load_module(name: str) -> ModuleType:
    """Import a module from the current folder or from Python's search path.

    Raises:
        ConfigurationException: there is no such module.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise ConfigurationException(
            f"There is no module {name!r}",
            hint="name it as in an import statement, relative to the current folder",
        ) from error


def _own(application: JmsApplication, config: Path | None) -> JmsApplication:
    if config is not None:
        raise ConfigurationException(
            "--config cannot be used with an application that the module creates itself",
            hint="pass config= to JmsApplication, or set PYJMS_CONFIG",
        )
    return application
