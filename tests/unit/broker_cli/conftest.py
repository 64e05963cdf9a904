"""Fixtures of this folder's tests."""

from tests.kit.stores.folders import filled, filled_once, folder, pyjms_broker
