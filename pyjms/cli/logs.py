"""Logging of the command line: one line for each record, levels from the settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping

__all__ = ["configure_logging"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def configure_logging(levels: Mapping[str, str]) -> None:
    """Log to standard error; `levels` maps logger names (`root`: all) to level names."""
    logging.basicConfig(format=_FORMAT, level=levels.get("root", "INFO"))
    for name, level in levels.items():
        if name != "root":
            logging.getLogger(name).setLevel(level)
