"""What a paper takes from a report: the report's numbers, fonts that are embedded, LaTeX that compiles."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from report.analysis import Analysis
from report.command import main
from report.figures.style import to_pdf
from report.paper import comparison_table, escape, methods, read_references
from report.parts.scores import draw_seeds
from tests.unit.report.studies import analysed

HOSTILE = r"a_b & 50% #1 {x} ~ ^ \y $z$ <b> |c| 'q' \"r\""
DOCUMENT = Path(__file__).with_name("paper.tex")


MANY = ("gelu", *map("v{}_%".format, range(23)))
"""With two metrics one row more than a page has."""


def scores(
    variants: Sequence[str] = ("gelu", "kan", HOSTILE), benchmarks: Sequence[str] = ("blimp", "glue")
) -> pd.DataFrame:
    """Scores of two families and five seeds, each variant better than the one before."""
    rows = [
        (family, variant, seed, benchmark, 40 + place + seed / 10 + (family == "roberta"))
        for family in ("gpt_neo", "roberta")
        for place, variant in enumerate(variants)
        for seed in range(5)
        for benchmark in benchmarks
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analysed(scores())


def written(folder: Path, table: pd.DataFrame, *flags: str) -> Path:
    """Write the report of a table; returns its folder."""
    table.to_csv(folder / "scores.csv", index=False)
    assert main([str(folder / "scores.csv"), "--out", str(folder / "out"), *flags]) == 0
    return folder / "out"


def rows_of(table: str) -> list[list[str]]:
    """The cells of a LaTeX table between its lines, without the signs of LaTeX."""
    is_long = r"\endlastfoot" in table
    start, end = (r"\endlastfoot", r"\end{longtable}") if is_long else (r"\midrule", r"\bottomrule")
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


def test_the_numbers_are_those_of_the_report(analysis: Analysis):
    of_kan = [c for c in analysis.comparisons if c.family is None and c.contrast.compared == "kan"]
    table = rows_of(comparison_table(analysis))
    rows = [row for row in table if row[1].strip() == "kan"]
    assert len(rows) == len(of_kan) == 2
    for row, c in zip(rows, of_kan, strict=True):
        assert float(row[2]) == pytest.approx(c.estimate, abs=0.01)
        low, high = map(float, re.findall(r"[-+]\d+\.\d+", row[3]))
        assert (low, high) == pytest.approx((c.low_simultaneous, c.high_simultaneous), abs=0.01)
        assert row[5].strip() == "better"
    assert [len(row) for row in table] == [6] * 4
    assert [float(row[2]) for row in table] == [2.0, 1.0, 2.0, 1.0]  # the best of each metric first


def test_what_is_cited_is_in_the_bibliography(analysis: Analysis):
    keys = re.findall(r"\\citep\{([^}]*)\}", methods(analysis, "0.1.0"))
    cited = {key for group in keys for key in group.split(",")}
    assert cited <= set(re.findall(r"^@\w+\{(\w+),", read_references(), re.MULTILINE))
    assert cited >= {"welch1947", "smyth2004", "westfall1993"}


def test_figures_have_fonts_that_can_be_searched_and_come_out_the_same_every_time(analysis: Analysis):
    first, second = (to_pdf(draw_seeds(analysis)[0]) for _ in range(2))
    assert first == second
    assert b"/FontFile2" in first
    assert b"/ToUnicode" in first
    assert b"/Type3" not in first


@pytest.mark.ci
def test_a_paper_changes_no_number_and_is_not_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture):
    def report(out: Path) -> str:
        return re.sub(r"## Reproduce.*", "", (out / "report.md").read_text(), flags=re.DOTALL)

    out = written(tmp_path, scores(), "--paper")
    assert capsys.readouterr().out.rstrip().endswith(str(out / "paper"))
    names = {path.stem for path in (out / "paper" / "figures").glob("*.pdf")}
    assert names == {path.stem for path in (out / "figures").glob("*.svg")}
    files = {path.name for path in (out / "paper").glob("*.*")}
    assert files == {"comparisons.tex", "methods.tex", "references.bib"}
    with_paper = report(out)
    assert report(written(tmp_path, scores())) == with_paper
    assert "paper is of an earlier report; --paper writes it again" in capsys.readouterr().out


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


@pytest.mark.parametrize("variants", [("gelu", "kan", HOSTILE), MANY])
def test_names_do_not_break_the_table(variants: tuple[str, ...]):
    """A bracket or a star behind a line break would be the break's argument."""
    found = analysed(scores(variants, ("[blimp]_&%", "*glue")))
    table, paragraph = comparison_table(found), methods(found, "0.1.0")
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
@pytest.mark.parametrize("variants", [("gelu", "kan", HOSTILE), MANY])
def test_latex_compiles_it(variants: tuple[str, ...], tmp_path: Path):
    paper = written(tmp_path, scores(variants, ("blimp", "*glue_")), "--paper") / "paper"
    shutil.copy(DOCUMENT, paper / "example.tex")
    for command in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        words = [command, "example"] if command == "bibtex" else [command, "-halt-on-error", "example.tex"]
        done = subprocess.run(words, cwd=paper, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined" not in (paper / "example.log").read_text(errors="replace")
