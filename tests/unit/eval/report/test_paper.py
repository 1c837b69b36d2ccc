"""What a paper takes from a report: the report's numbers, fonts that are embedded, LaTeX that compiles."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from base.errors import UsageError
from base.families import FAMILIES
from eval.report.analyse import analyse
from eval.report.command import main
from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.sources import read_source
from eval.report.paper.labels import Labels
from eval.report.paper.latex import escape
from eval.report.paper.methods import cited, methods, training_settings
from eval.report.paper.references import ENTRIES, OF_FAMILY, OF_SUITE
from eval.suites.registry import SUITES

HOSTILE = r"a_b & 50% #1 {x} ~ ^ \y $z$ <b> |c| 'q' \"r\""
VARIANTS = ("gelu", "kan", HOSTILE)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Two families, three variants and two outcomes of five seeds."""
    rows = [
        (family, variant, seed, outcome, 50 + 3 * place + seed / 10 + (family == "roberta"))
        for family in ("gpt_neo", "roberta")
        for place, variant in enumerate(VARIANTS)
        for seed in range(5)
        for outcome in ("blimp", "glue")
    ]
    path = tmp_path / "scores.csv"
    pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"]).to_csv(path, index=False)
    return path


def written(scores: Path, *flags: str, labels: str | None = None) -> Path:
    """Write the report with its paper; returns the paper's folder."""
    out = scores.parent / "out"
    words = [str(scores), "--out", str(out), "--paper", *flags]
    if labels is not None:
        file = scores.parent / "labels.yaml"
        file.write_text(labels)
        words += ["--labels", str(file)]
    assert main(words) == 0
    return out / "paper"


def cells(table: str) -> list[list[str]]:
    """The cells of a LaTeX table between its lines, without markup."""
    body = table.split(r"\midrule")[1].split(r"\bottomrule")[0]
    plain = re.sub(r"\\textbf\{([^}]*)\}", r"\1", body).replace("$-$", "-").replace(r"\quad ", "")
    return [
        [cell.strip() for cell in line.split("&")] for line in plain.split(r"\\") if line.count(" & ") >= 3
    ]


@pytest.mark.ci
def test_the_numbers_are_those_of_the_report(scores: Path):
    paper = written(scores, labels="variants: {kan: KAN}\nfamilies: {gpt_neo: Neo}\n")
    numbers: dict[str, Any] = json.loads((paper.parent / "report.json").read_text())
    averaged = [c for c in numbers["comparisons"] if c["family"] is None]
    found = cells((paper / "tables" / "differences.tex").read_text())
    of_kan = [row for row in found if row[0] == "KAN"]
    expected = (
        [c for c in averaged if c["variant"] == "kan"]
        if "variant" in averaged[0]
        else [c for c in averaged if c["contrast"].startswith("kan")]
    )
    assert len(of_kan) == len(expected) == 2
    for row, c in zip(of_kan, expected, strict=True):
        assert float(row[1]) == pytest.approx(c["estimate"], abs=0.01)
        low, high = map(float, re.findall(r"[-+]\d+\.\d+", row[2]))
        assert (low, high) == pytest.approx((c["low_simultaneous"], c["high_simultaneous"]), abs=0.01)
    means = pd.read_csv(scores).groupby(["variant", "benchmark", "family"]).score.mean()
    first = next(row for row in cells((paper / "tables" / "scores.tex").read_text()) if row[0] == "gelu")
    shown = [float(re.match(r"[\d.]+", cell)[0]) for cell in first[1:]]  # type: ignore[index]
    assert shown == pytest.approx(means["gelu"].to_list(), abs=0.05)


@pytest.mark.ci
def test_no_number_of_the_report_depends_on_the_paper(scores: Path):
    def report(out: Path) -> str:
        return re.sub(r"## Reproduce.*", "", (out / "report.md").read_text(), flags=re.DOTALL)

    paper = written(scores, labels="variants: {kan: Other}\nonly: true\n")
    out = scores.parent / "plain"
    main([str(scores), "--out", str(out)])
    assert report(out) == report(paper.parent)
    assert not (out / "paper").exists()
    table = (paper / "tables" / "differences.tex").read_text()
    assert "over all 4 claims (2 of them shown)" in table
    assert "a\\_b" not in table


@pytest.mark.ci
def test_variants_stand_in_the_order_of_the_labels(scores: Path):
    text = json.dumps({HOSTILE: "Strange", "kan": "KAN"})
    paper = written(scores, labels=f"variants: {text}\n")
    names = [row[0] for row in cells((paper / "tables" / "scores.tex").read_text())]
    assert names == ["gelu", "Strange", "KAN"]


@pytest.mark.ci
def test_files_come_out_the_same_every_time(scores: Path):
    paper = written(scores)
    before = {path.name: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    again = written(scores)
    assert before == {path.name: path.read_bytes() for path in again.rglob("*") if path.is_file()}


@pytest.mark.ci
def test_fonts_are_embedded_as_truetype_and_their_text_can_be_searched(scores: Path):
    paper = written(scores)
    found = sorted((paper / "figures").glob("*.pdf"))
    names = {path.name for path in found}
    assert {"forest.pdf", "seeds.pdf", "forest-blimp-column.pdf"} <= names
    for path in found:
        content = path.read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content
        assert b"/ToUnicode" in content
    boxes = re.findall(
        rb"/MediaBox \[ 0 0 ([\d.]+) ", (paper / "figures" / "forest-blimp-column.pdf").read_bytes()
    )
    assert float(boxes[0]) == pytest.approx(3.25 * 72)


@pytest.mark.ci
def test_what_is_cited_is_in_the_bibliography_and_nothing_else(scores: Path):
    paper = written(scores)
    found = set(
        re.findall(
            r"[a-z]+\d{4}", " ".join(re.findall(r"\\citep\{([^}]*)\}", (paper / "methods.tex").read_text()))
        )
    )
    entries = set(re.findall(r"^@\w+\{(\w+),", (paper / "references.bib").read_text(), re.MULTILINE))
    assert found == entries
    assert {
        "welch1947",
        "smyth2004",
        "westfall1993",
        "warstadt2020",
        "wang2018",
        "black2021",
        "liu2019",
    } <= found
    assert not {"eldan2023", "wang2019", "raffel2020"} & found  # nothing says that these were used
    for key, entry in ENTRIES.items():
        assert entry.count("{") == entry.count("}")
        assert entry.startswith("@")
        assert key[-4:] in entry


@pytest.mark.ci
def test_the_checklist_says_what_it_knows_and_what_not(scores: Path):
    text = (written(scores) / "checklist.md").read_text()
    assert "30 runs: 5 seeds of each of 3 variants in 2 families" in text
    assert "95% confidence intervals over training seeds by Welch's test" in text
    assert "Seeds: 0, 1, 2, 3, 4." in text
    assert "BLiMP: CC BY; GLUE: each task has its own" in text
    assert "Not known to the report; say it yourself." in text


def test_references_belong_to_suites_and_families_that_there_are():
    assert set(OF_SUITE) <= set(SUITES)
    assert set(OF_FAMILY) <= set(FAMILIES)
    assert {key for keys in OF_SUITE.values() for key in keys} | set(OF_FAMILY.values()) <= set(ENTRIES)


def test_a_study_says_what_it_was_trained_on(scores: Path):
    analysis = analyse(read_source(scores))
    run_id = analysis.runs.run_id.iloc[0]
    folder = scores.parent / "study"
    for source, expected in (("tinystories", True), ("embedded", False)):
        (folder / run_id).mkdir(parents=True, exist_ok=True)
        config = f"data: {{source: {source}}}\noptim: {{learning_rate: 0.01}}\n"
        (folder / run_id / "config.yaml").write_text(config)
        facts = (RunFacts(run_id=run_id, family="gpt_neo", variant="gelu", seed=0),)
        study = replace(
            analysis, source=replace(analysis.source, path=folder, kind="study folder", facts=facts)
        )
        assert training_settings(study) == {"source": [source], "learning_rate": [0.01]}
        text = methods(study, Labels(), "1")
        assert ("eldan2023" in cited(text)) == expected
        assert "salazar2020" in cited(text)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("variants: {kann: KAN}", r"unknown name in .*labels.yaml: variants: 'kann'; did you mean 'kan'"),
        ("variants: {kan: X, gelu: X}", "has the label 'X' twice"),
        ("variants: {kan: ' '}", "variants.kan has no label"),
        ("variants: [kan]", "must be a mapping"),
        ("variant: {kan: x}", "did you mean variants"),
        ("variants: {kan: x, kan: y}", "named twice"),
        ("- a", "expected a mapping"),
        ("", "names nothing"),
        ("variants: {gelu: G}\nonly: true", "leaves nothing beside the baseline gelu"),
        ("variants: {kan: gelu}", "'gelu' and 'kan' would both be called 'gelu'"),
        ("outcomes: {glue: BLiMP}", "would both be called 'BLiMP'"),
    ],
)
@pytest.mark.ci
def test_labels_that_do_not_fit(scores: Path, labels: str, message: str):
    with pytest.raises(UsageError, match=message) as told:
        written(scores, labels=labels)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", [HOSTILE, "β ± ↑ é", "\\", "100%", "$"])
def test_escaped_text_holds_no_command(text: str):
    plain = re.sub(r"\\(text[a-z]+\{\}|[{}$&#%_]|[a-z]+)|\$\\?[a-z-]+\$", "", escape(text))
    assert not set(plain) & set("\\{}$&#%_^~<>|")


@pytest.mark.parametrize(
    ("text", "written"),
    [("φ", r"$\phi$"), ("Ω", r"$\Omega$"), ("λ", r"$\lambda$"), ("Łódź", "Łódź"), ("ﬁ", "f"),
     ("中", "(U+4E2D)"), ("\x07", "")],
)  # fmt: skip
def test_letters_that_latex_has_no_font_for(text: str, written: str):
    assert escape(text) == written


@pytest.mark.ci
def test_a_name_is_no_argument_of_the_line_before_it(scores: Path):
    text = json.dumps({"kan": "[a]", HOSTILE: "*b"})
    table = (written(scores, labels=f"variants: {text}\n") / "tables" / "scores.tex").read_text()
    assert not re.search(r"(?m)^[*\[]", table)
    assert re.findall(r"(?m)^\{\}(\S+) &", table) == ["[a]", "*b"]


@pytest.mark.ci
def test_the_command_says_what_the_paper_leaves_out(scores: Path, capsys: pytest.CaptureFixture):
    paper = written(scores, labels="variants: {kan: Other}\nonly: true\n")
    said = capsys.readouterr().out
    assert f"paper/ leaves out {HOSTILE}; claims are corrected over all 4, these included." in said
    assert said.rstrip().endswith("paper/example.tex")
    main([str(scores), "--out", str(paper.parent)])
    assert "paper is of an earlier report; --paper writes it again" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="needs pdflatex (Debian: texlive-latex-recommended)"
)
@pytest.mark.parametrize(
    "labels",
    [
        None,
        f"variants: {json.dumps({HOSTILE: 'K & _N'})}\n",
        f"variants: {json.dumps({HOSTILE: '[φ] ł', 'kan': '*b → 中'})}\n",
    ],
    ids=["bare", "named", "letters"],
)
def test_latex_compiles_it(scores: Path, labels: str | None):
    paper = written(scores, labels=labels)
    for command in ("pdflatex", "bibtex", "pdflatex", "pdflatex"):
        words = [command, "example"] if command == "bibtex" else [command, "-halt-on-error", "example.tex"]
        done = subprocess.run(words, cwd=paper, capture_output=True, text=True, errors="replace", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    log = (paper / "example.log").read_text(errors="replace")
    assert labels is None or "Overfull \\hbox" not in log  # as long a name as that has no place in a column
    assert "undefined" not in log
