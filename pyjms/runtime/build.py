"""Which build runs: pure Python, or the wheel whose hot modules mypyc has compiled.

The compiled wheel has each module's source beside its extension, which Python prefers. With the
environment variable PYJMS_PURE=1 a finder prefers the sources, for one process: breakpoints,
patches and profilers then see every line.
"""

from __future__ import annotations

import abc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import find_spec
from types import ModuleType

PURE_VARIABLE = "PYJMS_PURE"
_PACKAGES = frozenset({"pyjms", "pyjms_broker"})


class _SourceFinder:
    """Finds the modules of the project, but none of their extensions.

    It does not extend `MetaPathFinder`, whose module imports a tenth of a client's start.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or fullname.partition(".")[0] not in _PACKAGES:
            return None
        for folder in path:
            found = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if found is not None and found.loader is not None:
                return found
        return None


def prefer_sources() -> None:
    """Import sources from now on, if PYJMS_PURE asks for it; called before anything is imported."""
    if os.environ.get(PURE_VARIABLE, "0") not in ("", "0"):
        sys.meta_path.insert(0, _SourceFinder())


def add_cause(
    error: BaseException | type[BaseException], cause: BaseException | None
) -> BaseException:
    """Return `error` with its cause: the build makes a call of this of each `raise ... from`."""
    raised = error() if isinstance(error, type) else error
    raised.__cause__ = cause
    return raised


def give_own_caches(kind: type) -> None:
    """Prepare `isinstance` of a compiled class with an abstract base, which shares its caches."""
    prepare = getattr(abc, "_abc_init", None)  # ABCMeta calls it for interpreted classes, later
    if prepare is not None and "__mypyc_attrs__" in vars(kind):
        prepare(kind)


def build_name() -> str:
    """Return `compiled` or `pure Python`, for version and start-up lines."""
    found = find_spec("pyjms.wire.limits")
    origin = (found and found.origin) or ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure Python"
