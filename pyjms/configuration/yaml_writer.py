"""Writing values as YAML that `pyjms.configuration.yaml_reader` reads as the same values.

PyYAML quotes the texts that YAML 1.1 reads as something else. Those that only YAML 1.2 does (`1e3`,
`0o17`) would become numbers.
"""

from __future__ import annotations

import yaml

from pyjms.configuration.yaml_reader import is_plain_text


class _Dumper(yaml.SafeDumper):
    """Quotes every text that a reader might take for something else."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if is_plain_text(text) else "'"
    if "\x85" in text:  # a line break in YAML 1.1, which PyYAML leaves as it is
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def write_yaml(values: object) -> str:
    """Return a document of mappings, lists and scalars, or one text."""
    written = yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return written.removesuffix("...\n")
