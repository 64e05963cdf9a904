"""Fixtures of this folder's tests."""

from tests.kit.golden_frames import golden
