"""The documentation site: it builds without warnings, has every page, and needs nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.processes.children import ROOT, environment

DOCS = ROOT / "docs"
CONFIGURATION = ROOT / "config" / "site" / "mkdocs.yml"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\"\s>]+)")


def built(folder: Path, **variables: str) -> Path:
    """Build the site into a folder: without warnings, as the settings are strict."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-f", CONFIGURATION, "-d", folder],
        capture_output=True,
        text=True,
        check=False,
        env=environment(NO_MKDOCS_2_WARNING="1", **variables),
        timeout=110,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without the descriptions of Python's names, which take two thirds of the time."""
    return built(tmp_path_factory.mktemp("site"), DOCS_OF_THE_API="false")


@pytest.mark.nightly
def test_the_site_describes_the_public_names(tmp_path: Path) -> None:
    listeners = (built(tmp_path) / "reference" / "api" / "listeners.html").read_text("utf-8")
    assert 'id="pyjms.listener.decorators.jms_listener"' in listeners


def test_every_page_is_in_the_navigation() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert {
        page for page in pages if not re.search(rf"[ :]{re.escape(page)}$", text, re.MULTILINE)
    } == set()


def test_every_page_can_be_reached_from_the_first_one() -> None:
    found, unread = set[Path](), {DOCS / "index.md"}
    while unread:
        page = unread.pop()
        found.add(page)
        links = re.findall(r"\]\(([\w./-]+\.md)\b", page.read_text(encoding="utf-8"))
        linked = {(page.parent / link).resolve() for link in links}
        unread |= {each for each in linked if each.is_file()} - found
    assert {page for page in DOCS.rglob("*.md") if page not in found} == set()
    assert {"listeners.md", "scheduling.md", "transactions.md"} <= {page.name for page in found}


def test_links_between_pages_work_in_a_checkout() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    links = {
        (page, link.partition("#")[0])
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not link.startswith(("http", "#", "mailto:"))
    }
    assert {(page.name, to) for page, to in links if not (page.parent / to).exists()} == set()


def test_the_site_has_pages_made_from_the_code(site: Path) -> None:
    settings = (site / "reference" / "application.html").read_text(encoding="utf-8")
    assert "pub_sub_domain" in settings
    assert 'id="activemqfailover"' in settings
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "pyjms broker dstat" in commands


def test_the_search_prefers_guides_to_the_reference(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    boosts: dict[str, set[float]] = {}
    for entry in index["docs"]:
        page = entry["location"].partition("#")[0]
        folder = page.partition("/")[0] if "/" in page else page
        boosts.setdefault(folder, set()).add(entry.get("boost", 1))
    assert {"specification", "decisions.html"} & boosts.keys() == set()
    assert max(boosts["reference"]) < 1 <= min(boosts["tutorial.html"] | boosts["retries.html"])


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = {
        (str(page.relative_to(site)), url)
        for page in site.rglob("*.html")
        for url in LOADED.findall(page.read_text(encoding="utf-8"))
    }
    assert loaded == set()


def test_pages_have_the_style_sheet_of_the_site(site: Path) -> None:
    assert "max-width" in (site / "site.css").read_text(encoding="utf-8")
    page = (site / "coming-from" / "celery.html").read_text(encoding="utf-8")
    assert re.search(r"<link\b[^>]*href=\"?\.\./site\.css", page)
