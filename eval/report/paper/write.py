"""Puts together what a paper takes from a report: ``paper/`` beside ``report.md``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eval.report.analysis import Analysis
from eval.report.paper.checklist import checklist
from eval.report.paper.figures import paper_figures
from eval.report.paper.labels import Labels, check_labels, shown
from eval.report.paper.latex import escape
from eval.report.paper.methods import cited, methods
from eval.report.paper.references import bibliography
from eval.report.paper.tables import tables

FOLDER = "paper"
EXAMPLE = "example.tex"


def paper_files(
    analysis: Analysis, labels: Labels, labels_path: Path | None, versions: Mapping[str, str], command: str
) -> dict[str, str | bytes]:
    """Return every file of the folder by its name in it.

    Args:
        analysis: What the report says.
        labels: What the paper calls it.
        labels_path: Where the labels are from, for messages.
        versions: Of the software.
        command: The one that makes the report again.

    Raises:
        UsageError: For a label of what the report has not.
    """
    check_labels(labels, analysis, labels_path or Path("labels"))
    displayed = shown(analysis, labels)
    drawn = paper_figures(analysis, displayed, labels)
    captions = {name: caption for name, (_, caption) in drawn.items()}
    # Claims are counted as they were corrected, shown or not.
    text = methods(analysis, labels, versions.get("ffn-ablations", ""))
    found: dict[str, str | bytes] = {f"figures/{name}": pdf for name, (pdf, _) in drawn.items()}
    found |= {
        f"tables/{name}.tex": table for name, table in tables(displayed, labels, len(analysis.claims)).items()
    }
    found["methods.tex"] = text
    found["references.bib"] = bibliography(cited(text))
    found["checklist.md"] = checklist(analysis, labels, command)
    found[EXAMPLE] = _example(analysis, captions, found)
    return found


def _example(analysis: Analysis, captions: Mapping[str, str], files: Mapping[str, str | bytes]) -> str:
    """Write a document of two columns that shows everything, to copy from."""
    columns = [name for name in captions if name.endswith("-column.pdf")]
    wide = [name for name in captions if name not in columns]
    parts = [
        r"\documentclass[10pt,twocolumn]{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[letterpaper,textwidth=6.75in,columnsep=0.25in,textheight=9in]{geometry}",
        r"\usepackage{times,booktabs,graphicx}",
        r"\usepackage[round]{natbib}",
        r"\begin{document}",
        rf"\section*{{{escape(analysis.source.title)}}}",
        r"\input{methods}",
        *(rf"\input{{{name.removesuffix('.tex')}}}" for name in files if name.startswith("tables/")),
        *(_figure(name, captions[name], "figure", r"\columnwidth") for name in columns),
        *(_figure(name, captions[name], "figure*", r"\textwidth") for name in wide),
        r"\bibliographystyle{plainnat}",
        r"\bibliography{references}",
        r"\end{document}",
        "",
    ]
    return "\n".join(parts)


def _figure(name: str, caption: str, environment: str, width: str) -> str:
    return "\n".join(
        [
            rf"\begin{{{environment}}}[t]",
            r"\centering",
            rf"\includegraphics[width={width}]{{figures/{name}}}",
            rf"\caption{{{escape(caption)}}}",
            rf"\end{{{environment}}}",
        ]
    )
