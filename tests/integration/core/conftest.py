"""Fixtures of this folder's tests."""

from tests.kit.data import oracle
from tests.kit.embedded_template import (
    broker,
    factory,
    template,
)
