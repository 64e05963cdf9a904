"""The conversion of one file and its result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pyjms.configuration import Document
from pyjms_broker.conversion.broker import convert_broker
from pyjms_broker.conversion.draft import Draft
from pyjms_broker.conversion.spring import Placeholders, SpringFiles
from pyjms_broker.conversion.xml_reader import Finding, Findings
from pyjms_broker.settings import BrokerSettings
from pyjms_broker.settings.sources import validated

__all__ = ["Conversion", "convert_activemq_xml"]


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion."""

    document: Document
    """The values of broker.yaml, with their lines in the XML."""
    findings: tuple[Finding, ...]
    """Unsupported elements and notes, by file and line."""

    @property
    def unsupported(self) -> tuple[Finding, ...]:
        """The findings about settings that are lost."""
        return tuple(each for each in self.findings if each.is_unsupported)

    def settings(self) -> BrokerSettings:
        """Return the broker's settings.

        Raises:
            ConfigurationException: the values contradict each other; the error has file and line.
        """
        return validated(self.document)

    def yaml(self) -> str:
        """Return broker.yaml, starting with the findings as comments."""
        source = self.document.origins[()].source
        head = [f"# Converted from {source} by pyjms broker config convert.", "#"]
        for title, findings in (
            ("Not converted", self.unsupported),
            ("Notes", tuple(each for each in self.findings if not each.is_unsupported)),
        ):
            if findings:
                head.append(f"# {title}:")
                head += (f"#   {' '.join(str(each).split())}" for each in findings)
        head.append("")
        values = _escaped(self.document.values)
        body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
        return "\n".join(head) + "\n" + body


def convert_activemq_xml(
    path: Path,
    properties: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Conversion:
    """Convert ActiveMQ's configuration, a Spring XML file; blocking.

    Args:
        path: the file; its imports and properties files are also read.
        properties: values of placeholders such as `${activemq.data}`; they override all others.
        environ: the environment; `os.environ` by default.

    Raises:
        ConfigurationException: the file cannot be read, is not XML, declares entities, or does not
            have exactly one broker.
    """
    findings = Findings()
    conf = path.absolute().parent
    placeholders = Placeholders(
        {} if properties is None else properties, os.environ if environ is None else environ, conf
    )
    draft = Draft(findings)
    broker = SpringFiles(findings, placeholders).load(path)
    convert_broker(draft, broker, conf)
    document = draft.document
    origins = {**document.origins, (): broker.origin}
    return Conversion(Document(document.values, origins), findings.all)


def _escaped(value: Any) -> Any:
    r"""Write `\${` for a literal `${`, which broker.yaml would replace."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value.replace("${", "\\${") if isinstance(value, str) else value
