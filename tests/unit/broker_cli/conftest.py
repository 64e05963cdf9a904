"""Fixtures of this folder's tests."""

from tests.kit.stores.folders import filled, folder, pyjms_broker
