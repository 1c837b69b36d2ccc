"""What mkdocs is told of these documents (hooks of mkdocs.yml): which pages there are, and where they lie.

Pages keep their places in the repository, so that every link means the same here and there: README.md is the
home, docs/heads.md lies at docs/heads/, benchmarks/RESULTS.md at benchmarks/RESULTS/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
INDEX = "docs/README.md"
FOUND_LAST = ("CHANGELOG.md", "benchmarks/RESULTS.md", "docs/*/report.md", "docs/*/inspection.md")
"""What the search shows behind the pages that answer a question."""
LEADS_ON = {
    "report.md": "[How to read a report](../reading-a-report.md), [all documents](../README.md)",
    "inspection.md": "[What it shows](../inspect.md), [all documents](../README.md)",
}
"""What stands below the title of a generated page, which has no links of its own."""
SHOWN = ("*.md", "benchmarks/*.md", "docs/*.md", "docs/*/*.md", "docs/*.css")


def on_config(config: Any) -> Any:
    """Order the pages as the table of the documents' index does."""
    config.nav = [
        {"Home": "README.md"},
        {"All documents": INDEX},
        *sections((ROOT / INDEX).read_text(encoding="utf-8")),
    ]
    return config


def sections(index: str) -> list[dict[str, Any]]:
    """Return the parts of the site with their pages, of the rows of a table; a page stands where named first.

    Args:
        index: A page with a table of two columns. Rows with a bold first cell begin a part, others link to a
            page in the second.
    """
    parts: dict[str, list[str]] = {}
    part: list[str] | None = None
    seen = {"README.md", INDEX}
    for row in re.findall(r"^\| (.*) \|$", index, re.MULTILINE):
        if bold := re.match(r"\*\*(.*?)\*\*", row):
            part = parts.setdefault(bold[1].capitalize(), [])
        elif link := re.search(r"\]\(([^)#]+)", row):
            page = (ROOT / "docs" / link[1]).resolve().relative_to(ROOT).as_posix()
            if page not in seen and part is not None:
                seen.add(page)
                part.append(page)
    return [{name: pages} for name, pages in parts.items() if pages]


def on_files(files: Files, config: Any) -> Files:
    """Give the pages the places that they have in the repository, in place of those below docs/."""
    kept = [file for file in files if Path(file.src_dir or "").resolve() != ROOT / "docs"]
    paths = {path for pattern in SHOWN for path in ROOT.glob(pattern)}
    paths |= {file for path in paths if path.suffix == ".md" for file in linked_from(path)}
    names = [path.relative_to(ROOT).as_posix() for path in sorted(paths)]
    return Files(kept + [File(name, str(ROOT), config.site_dir, config.use_directory_urls) for name in names])


def linked_from(page: Path) -> set[Path]:
    """Return the files of the repository that a page shows or links to."""
    targets = re.findall(r"(?:\]\(|src=\")([^)#\s\"]+)", page.read_text(encoding="utf-8"))
    files = {(page.parent / target).resolve() for target in targets if "://" not in target}
    return {file for file in files if file.is_file() and file.is_relative_to(ROOT)}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write for Python-Markdown what GitHub reads otherwise: what can be unfolded, languages, warnings."""
    path = Path(page.file.src_uri)
    if any(path.match(pattern) for pattern in FOUND_LAST):
        page.meta["search"] = {"boost": 0.2}
    if path.name in LEADS_ON:
        title, body = markdown.split("\n", maxsplit=1)
        markdown = f"{title}\n\n{LEADS_ON[path.name]}\n{body}"
    if page.file.src_uri == INDEX:
        page.meta["search"] = {"exclude": True}
    unfolded = markdown.replace("<details>", '<details markdown="1">')
    # GitHub takes the first word behind a fence for the language; others are for tests.
    named = re.sub(r"^(```\w+) .*$", r"\1", unfolded, flags=re.MULTILINE)
    return re.sub(r"^> \[!(\w+)\]\n((?:>.*\n?)+)", _admonition, named, flags=re.MULTILINE)


def _admonition(alert: re.Match[str]) -> str:
    return f"!!! {alert[1].lower()}\n\n" + re.sub(r"^> ?", "    ", alert[2], flags=re.MULTILINE)
