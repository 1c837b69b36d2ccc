"""The report as Markdown that renders on GitHub, made from an analysis and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eval.report.analysis import Analysis
from eval.report.document.markdown import anchor
from eval.report.scores.published import source_study_section
from eval.report.sections.answer import answer, explored
from eval.report.sections.context import Context
from eval.report.sections.design import checks_section, design_section, inspection_section
from eval.report.sections.differences import differences_section
from eval.report.sections.equal_cost import equal_cost_section
from eval.report.sections.learning_curves import learning_curves_section
from eval.report.sections.methods import limits_section, methods_section
from eval.report.sections.outcomes import outcomes_section
from eval.report.sections.published import published_section
from eval.report.sections.ranking import ranking_section
from eval.report.sections.scores import parts_section, scores_section, tasks_section
from eval.report.sections.sensitivity import sensitivity_section
from eval.report.sections.sizes import sizes_section, sizes_sentence
from eval.report.sections.training import cost_section, gradient_norms
from eval.report.sections.tuning import tuning_section
from eval.report.sections.verdicts import reading, verdicts, warnings


def render(analysis: Analysis, context: Context) -> str:
    """Write the whole report as Markdown: what it shows, then how, then every number."""
    sections = [
        ranking_section(analysis, context),
        tuning_section(analysis, context),
        sizes_section(analysis, context),
        learning_curves_section(analysis, context),
        gradient_norms(context),
        outcomes_section(analysis),
        differences_section(analysis, context),
        scores_section(analysis, context),
        equal_cost_section(analysis, context),
        cost_section(analysis, context),
        parts_section(analysis, context),
        tasks_section(analysis),
        inspection_section(analysis),
        sensitivity_section(analysis),
        source_study_section(analysis.source_study),
        published_section(analysis.published, context),
        design_section(analysis),
        checks_section(analysis),
        methods_section(analysis, context),
        limits_section(analysis),
    ]
    first = [
        " ".join(answer(analysis)),
        explored(analysis),
        sizes_sentence(analysis),
        verdicts(analysis),
        context.figure("forest"),
        reading(analysis),
        warnings(analysis),
        contents((*sections, "## Reproduce")),
    ]
    return "\n\n".join(section for section in (*first, *sections) if section)


def contents(sections: Iterable[str]) -> str:
    """Link every section in one line."""
    titles = [found for text in sections for found in re.findall(r"^## (.+)$", text, re.MULTILINE)]
    return "**Contents:** " + " · ".join(f"[{title}](#{anchor(title)})" for title in titles)
