"""MkDocs hooks of the documentation site: pages made from the code, and links out of `docs`.

The reference is made from what runs: settings from the models of both YAML files, commands from
the command line itself, the API from the tables of public names. Links to files of the checkout
(`../config/broker.yaml`) lead to copies of them on the site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

_HERE: Final = Path(__file__).resolve().parent
_ROOT: Final = _HERE.parents[1]
sys.path[:0] = [str(_HERE), str(_ROOT), str(_ROOT / "broker")]

import reference  # noqa: E402 - beside this file

_OUTSIDE: Final = re.compile(r"\]\((?:\.\./)+((?:config|examples|tests|README)[^)#]*)(#[^)]*)?\)")
_BRACKET_OF_CODE: Final = re.compile(r"\[(?=[^\]\n]*`[^\]\n]*\](?!\())")
_ALREADY_A_PAGE: Final = "README.md"
_SEARCH: Final[Mapping[str, Mapping[str, Any]]] = {
    "specification/": {"exclude": True},  # for those who write the code: a third of all words
    "decisions.md": {"exclude": True},
    "reference/": {"boost": 0.2},  # below each guide that has the same words
    "architecture.md": {"boost": 0.5},
    "extending-": {"boost": 0.5},
    "glossary-code.md": {"boost": 0.5},
    "limits-measured.md": {"boost": 0.5},
    "tutorial.md": {"boost": 2.0},
}
"""What the search does with pages, by the begin of their paths; the others have a boost of 1."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference, the style sheet, and what pages link to outside of `docs`."""
    files.append(File.generated(config, "site.css", abs_src_path=str(_HERE / "site.css")))
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    for target in sorted(_linked_files(files)):
        source = _ROOT / target
        files.append(File.generated(config, f"files/{target}", abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links out of `docs` lead to the copies, and rank the page in the search."""
    del config, files
    for path, rank in _SEARCH.items():
        if page.file.src_uri.startswith(path):
            page.meta["search"] = rank
    up = "../" * page.file.src_uri.count("/")

    def replace(match: re.Match[str]) -> str:
        target = match[1]
        if target == _ALREADY_A_PAGE:
            return f"]({up}index.md)"
        return f"]({up}files/{target}{match[2] or ''})"

    if page.file.src_uri.startswith("specification/"):  # brackets there are no references
        markdown = _BRACKET_OF_CODE.sub(r"\\[", markdown)
    return _OUTSIDE.sub(replace, markdown)


def _linked_files(files: Files) -> set[str]:
    found: set[str] = set()
    for page in files.documentation_pages():
        found |= {match[1] for match in _OUTSIDE.finditer(page.content_string)}
    missing = sorted(name for name in found if not (_ROOT / name).is_file())
    if missing:
        raise SystemExit(f"docs: pages link to files that do not exist: {', '.join(missing)}")
    return found - {_ALREADY_A_PAGE}
