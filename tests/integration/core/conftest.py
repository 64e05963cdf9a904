"""Fixtures of this folder's tests."""

from tests.kit.clients.embedded_template import broker, factory, template
from tests.kit.data import oracle
