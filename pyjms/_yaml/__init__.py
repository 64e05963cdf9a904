"""Configuration files: YAML with places, profiles, environment, `${...}`, and clear errors.

Serves the settings of both packages. Reads files and the mapping it is given as
environment, nothing else. Whatever is wrong is a ConfigurationException that names the
file and line, or the environment variable.
"""

from __future__ import annotations

from pyjms._yaml.document import Document, Origin, merge
from pyjms._yaml.durations import Deadline, Duration, ReceiveTimeout
from pyjms._yaml.environment_check import RESERVED_VARIABLES, refuse_misspelt_variables
from pyjms._yaml.layers import chosen_profiles, overlay_environment, read_layers
from pyjms._yaml.placeholders import Placeholders, expand
from pyjms._yaml.problems import validate
from pyjms._yaml.reader import parse_yaml, read_yaml

__all__ = [
    "RESERVED_VARIABLES",
    "Deadline",
    "Document",
    "Duration",
    "Origin",
    "Placeholders",
    "ReceiveTimeout",
    "chosen_profiles",
    "expand",
    "merge",
    "overlay_environment",
    "parse_yaml",
    "read_layers",
    "read_yaml",
    "refuse_misspelt_variables",
    "validate",
]
