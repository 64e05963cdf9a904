"""`docs/architecture.md` names the packages that exist, and all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"pyjms": ROOT, "pyjms_broker": ROOT / "broker"}
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("document", "least"), [("architecture.md", 30), ("contributing.md", 20)])
def test_every_path_in_the_document_exists(document: str, least: int) -> None:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    paths = set(re.findall(r"(?<![/\w])((?:pyjms|pyjms_broker|tests|config)/[a-z_/.]*[a-z])", text))
    assert len(paths) > least
    missing = {path for path in paths if not (ROOT / path).exists()}
    assert {path for path in missing if not (ROOT / "broker" / path).exists()} == set()


def test_every_package_is_described() -> None:
    described = set(re.findall(r"`((?:pyjms|pyjms_broker)/\w+(?:\.py)?)`", TEXT))
    packages = {
        f"{top}/{path.parent.name}"
        for top, folder in FOLDERS.items()
        for path in (folder / top).glob("*/__init__.py")
    }
    assert packages - described == set()


def test_every_link_leads_to_a_file() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = document.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in link and not _is_made_for_the_site(document, link):
                assert (document.parent / link).exists(), f"{document.name}: {link}"


def _is_made_for_the_site(document: Path, link: str) -> bool:
    """Return whether the page is made from the code (config/site): test_site.py checks the link."""
    docs = ROOT / "docs"
    target = (document.parent / link).resolve()
    return target.is_relative_to(docs / "reference") and document.is_relative_to(docs)
