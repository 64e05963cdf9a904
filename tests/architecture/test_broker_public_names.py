"""The public names of the broker: which there are, and that importing the package is cheap."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pyjms_broker

NAMES = """
    BrokerFilter BrokerPlugin BrokerService CompositeQueue CompositeTopic DeadLetterStrategy
    DiscardingDeadLetterStrategy IndividualDeadLetterStrategy MirroredQueue PolicyEntry PolicyMap
    SharedDeadLetterStrategy VirtualTopic
""".split()  # noqa: SIM905 - to be read


def test_these_names_are_public() -> None:
    assert pyjms_broker.__all__ == NAMES
    assert set(NAMES) <= set(dir(pyjms_broker))


def test_all_names_can_be_imported() -> None:
    assert all(getattr(pyjms_broker, name).__name__ == name for name in NAMES)


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(str(pyjms_broker.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    }
    assert sorted(seen) == pyjms_broker.__all__
    assert all(getattr(importlib.import_module(home), name) is getattr(pyjms_broker, name)
               for name, home in seen.items())  # fmt: skip


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match="module 'pyjms_broker' has no attribute 'BrokerServce'"
    ):
        pyjms_broker.BrokerServce  # noqa: B018


def test_importing_the_package_imports_no_other_module_of_the_broker() -> None:
    code = "import sys, pyjms_broker\nprint(sorted(n for n in sys.modules if n.startswith('pyjms_broker.')))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
