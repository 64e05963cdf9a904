"""Functions are short."""

from __future__ import annotations

import pytest

from tests.kit.runs.parallel import SOURCE_TREE
from tests.kit.source_tree import FILES, functions, relative

pytestmark = pytest.mark.xdist_group(SOURCE_TREE)

FUNCTION_LIMIT = 90
LONGER_FUNCTIONS = {"pyjms/wire/openwire/fast_reader.py:_message": 140}
"""Functions that are one straight run of generated or unrolled steps."""


def test_functions_are_short() -> None:
    sizes = {
        f"{relative(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in FILES
        for node in functions(path)
    }
    limits = {name: LONGER_FUNCTIONS.get(name, FUNCTION_LIMIT) for name in sizes}
    assert {name: size for name, size in sizes.items() if size > limits[name]} == {}
