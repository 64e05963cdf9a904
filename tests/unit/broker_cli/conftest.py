"""Fixtures of this folder's tests."""

from tests.kit.store_folders import filled, folder, pyjms_broker
