"""Logging of the command line: one line for each record, levels from the settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Literal

__all__ = ["LogFormat", "configure_logging"]

LogFormat = Literal["text", "json"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def configure_logging(levels: Mapping[str, str], log_format: LogFormat = "text") -> None:
    """Log to standard error; `levels` maps logger names (`root`: all) to level names.

    Log handlers that the application has set up are not changed.
    """
    handler = logging.StreamHandler()
    if log_format == "json":
        from pyjms.observability.logs import JsonFormatter

        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(handlers=[handler], level=levels.get("root", "INFO"))
    for name, level in levels.items():
        if name != "root":
            logging.getLogger(name).setLevel(level)
