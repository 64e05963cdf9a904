"""Fixtures of this folder's tests."""

from tests.kit.security import secured
from tests.kit.stomp import stomp_broker
from tests.kit.tls import files, make_files
