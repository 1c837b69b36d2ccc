"""What a paper takes from a report: the report's numbers, fonts that are embedded, LaTeX that compiles."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from report.command import main
from report.paper import escape, read_references

HOSTILE = r"a_b & 50% #1 {x} ~ ^ \y $z$ <b> |c| 'q' \"r\""
DOCUMENT = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx,longtable}
\usepackage[round]{natbib}
\begin{document}
\input{methods}
\input{comparisons}
\includegraphics[width=\textwidth]{figures/forest.pdf}
\bibliographystyle{plainnat}
\bibliography{references}
\end{document}
"""


def write_scores(
    folder: Path,
    variants: Sequence[str] = ("gelu", "kan", HOSTILE),
    benchmarks: Sequence[str] = ("blimp", "glue"),
) -> Path:
    """Write a table of two families and five seeds."""
    rows = [
        (family, variant, seed, benchmark, 40 + place + seed / 10 + (family == "roberta"))
        for family in ("gpt_neo", "roberta")
        for place, variant in enumerate(variants)
        for seed in range(5)
        for benchmark in benchmarks
    ]
    path = folder / "scores.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(path, index=False)
    return path


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return write_scores(tmp_path)


def written(scores: Path, *flags: str) -> Path:
    """Write the report with its paper; returns the paper's folder."""
    out = scores.parent / "out"
    assert main([str(scores), "--out", str(out), "--paper", *flags]) == 0
    return out / "paper"


def rows_of(table: str) -> list[list[str]]:
    """The cells of a LaTeX table between its lines, without the signs of LaTeX."""
    start, end = (
        (r"\endlastfoot", r"\end{longtable}") if r"\endlastfoot" in table else (r"\midrule", r"\bottomrule")
    )
    body = table.split(start)[1].split(end)[0].replace("$-$", "-")
    return [re.split(r"(?<!\\)&", line) for line in body.split("\\\\\n") if line.strip()]


def environments(text: str) -> list[str]:
    """Those that are open at the end of a text; fails where one is closed that is not the last opened."""
    opened: list[str] = []
    for command, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if command == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    return opened


@pytest.mark.ci
def test_the_numbers_are_those_of_the_report(scores: Path):
    paper = written(scores)
    numbers: dict[str, Any] = json.loads((paper.parent / "report.json").read_text())
    of_kan = [c for c in numbers["comparisons"] if c["family"] is None and c["contrast"].startswith("kan")]
    table = rows_of((paper / "comparisons.tex").read_text())
    rows = [row for row in table if row[1].strip() == "kan"]
    assert len(rows) == len(of_kan) == 2
    for row, c in zip(rows, of_kan, strict=True):
        assert float(row[2]) == pytest.approx(c["estimate"], abs=0.01)
        low, high = map(float, re.findall(r"[-+]\d+\.\d+", row[3]))
        assert (low, high) == pytest.approx((c["low_simultaneous"], c["high_simultaneous"]), abs=0.01)
        assert row[5].strip() == "better"
    assert [len(row) for row in table] == [6] * 4
    assert [float(row[2]) for row in table] == [2.0, 1.0, 2.0, 1.0]  # the best of each metric first


@pytest.mark.ci
def test_no_number_of_the_report_depends_on_the_paper(scores: Path, capsys: pytest.CaptureFixture):
    def report(out: Path) -> str:
        return re.sub(r"## Reproduce.*", "", (out / "report.md").read_text(), flags=re.DOTALL)

    paper = written(scores)
    assert capsys.readouterr().out.rstrip().endswith(str(paper))
    out = scores.parent / "plain"
    main([str(scores), "--out", str(out)])
    assert report(out) == report(paper.parent)
    assert not (out / "paper").exists()
    main([str(scores), "--out", str(paper.parent)])
    assert "paper is of an earlier report; --paper writes it again" in capsys.readouterr().out


@pytest.mark.ci
def test_files_come_out_the_same_every_time(scores: Path):
    paper = written(scores)
    before = {path.name: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    again = written(scores)
    assert before == {path.name: path.read_bytes() for path in again.rglob("*") if path.is_file()}


@pytest.mark.ci
def test_every_figure_is_there_with_fonts_that_can_be_searched(scores: Path):
    paper = written(scores)
    names = {path.stem for path in (paper / "figures").glob("*.pdf")}
    assert names == {path.stem for path in (paper.parent / "figures").glob("*.svg")}
    for path in (paper / "figures").glob("*.pdf"):
        content = path.read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content
        assert b"/ToUnicode" in content


@pytest.mark.ci
def test_what_is_cited_is_in_the_bibliography(scores: Path):
    paper = written(scores)
    keys = re.findall(r"\\citep\{([^}]*)\}", (paper / "methods.tex").read_text())
    cited = {key for group in keys for key in group.split(",")}
    bibliography = (paper / "references.bib").read_text()
    assert cited <= set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))
    assert cited >= {"welch1947", "smyth2004", "westfall1993"}


def test_entries_of_the_bibliography_are_whole():
    entries = re.split(r"\n\n(?=@)", read_references().partition("\n\n")[2])
    assert max(Counter(re.match(r"@\w+\{(\w+),", entry)[1] for entry in entries).values()) == 1  # type: ignore[index]
    for entry in entries:
        assert entry.count("{") == entry.count("}")
        assert re.search(r"^  title = |, title = ", entry, re.MULTILINE)
        key, year = re.match(r"@\w+\{(\w+),", entry)[1], re.search(r"year = \{(\d+)\}", entry)[1]  # type: ignore[index]
        assert key.endswith(year)


@pytest.mark.parametrize("text", [HOSTILE, "é ± ~", "\\", "100%", "$", "a\nb", "\N{MINUS SIGN}1"])
def test_escaped_text_holds_no_command(text: str):
    plain = re.sub(r"\\(text[a-z]+\{\}|[{}$&#%_])|\$(-|\\infty|[<>|])\$", "", escape(text))
    assert not set(plain) & set("\\{}$&#%_^~<>|\n\N{MINUS SIGN}")


@pytest.mark.ci
@pytest.mark.parametrize("variants", [("gelu", "kan", HOSTILE), ("gelu", *map("v{}_%".format, range(50)))])
def test_names_do_not_break_the_table(variants: tuple[str, ...], tmp_path: Path):
    """A bracket or a star behind a line break would be the break's argument."""
    paper = written(write_scores(tmp_path, variants, ("[blimp]_&%", "*glue")))
    table, paragraph = (paper / "comparisons.tex").read_text(), (paper / "methods.tex").read_text()
    for text in (table, paragraph):
        assert environments(text) == []
        assert text.replace(r"\{", "").count("{") == text.replace(r"\}", "").count("}")
        assert not re.search(r"(?<!\\)[%#]", text)
        assert not re.search(r"(?m)^ *[*\[]", text)
    assert len(rows_of(table)) == 2 * (len(variants) - 1)
    assert all(len(row) == 6 for row in rows_of(table))
    assert (r"\begin{longtable}" in table) == (len(variants) > 23)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-recommended)"
)
@pytest.mark.parametrize("variants", [("gelu", "kan", HOSTILE), ("gelu", *map("v{}_%".format, range(50)))])
def test_latex_compiles_it(variants: tuple[str, ...], tmp_path: Path):
    paper = written(write_scores(tmp_path, variants, ("blimp", "*glue_")))
    (paper / "example.tex").write_text(DOCUMENT)
    for command in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        words = [command, "example"] if command == "bibtex" else [command, "-halt-on-error", "example.tex"]
        done = subprocess.run(words, cwd=paper, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in (paper / "example.log").read_text(errors="replace")
