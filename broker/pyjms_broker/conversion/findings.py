"""Findings of a conversion: settings that are lost or expressed differently."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms._yaml import Origin
from pyjms_broker.conversion.xml_reader import Element

__all__ = ["Finding", "Findings"]


@dataclass(frozen=True)
class Finding:
    """An element or attribute of the XML that has no exact counterpart in broker.yaml."""

    origin: Origin
    subject: str
    """The element, with the attribute if there is one: `<transportConnector uri>`."""
    reason: str
    hint: str = ""
    is_unsupported: bool = True
    """Whether a setting is lost; False for a note: the broker behaves the same without it."""

    def __str__(self) -> str:
        kind = "not converted" if self.is_unsupported else "note"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.origin}: {self.subject}: {kind}: {self.reason}{hint}"


class Findings:
    """The findings of one conversion, in the order of the files and lines."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}

    @property
    def all(self) -> tuple[Finding, ...]:
        """All findings, by file and line."""
        return tuple(sorted(self._found, key=lambda each: (each.origin.source, each.origin.line)))

    def unsupported(
        self, element: Element, reason: str, hint: str = "", *, attribute: str = ""
    ) -> None:
        """Add a finding about a lost element or attribute."""
        self._add(element, attribute, reason, hint, is_unsupported=True)

    def note(self, element: Element, reason: str, hint: str = "", *, attribute: str = "") -> None:
        """Add a note about an element or attribute that is not needed, or expressed differently."""
        self._add(element, attribute, reason, hint, is_unsupported=False)

    def _add(
        self, element: Element, attribute: str, reason: str, hint: str, *, is_unsupported: bool
    ) -> None:
        if attribute:
            element.read_attributes.add(attribute)
        else:
            element.is_named = True
        subject = f"<{element.name} {attribute}>" if attribute else f"<{element.name}>"
        self._found[Finding(element.origin, subject, reason, hint, is_unsupported)] = None
