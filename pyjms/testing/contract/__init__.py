"""Contract tests that an extension can run against its own implementation.

Each module has a class of tests for one kind of extension. Subclass it in your own test module,
define the one fixture that it names, and run pytest with anyio's plugin.
"""

import pytest

pytest.register_assert_rewrite(
    "pyjms.testing.contract.converter",
    "pyjms.testing.contract.store",
    "pyjms.testing.contract.connector",
    "pyjms.testing.contract.transport",
)
