"""The report as Markdown that renders on GitHub, made from an analysis and nothing else."""

from __future__ import annotations

from eval.report.analysis import Analysis
from eval.report.sections.answer import answer
from eval.report.sections.context import Context
from eval.report.sections.design import checks_section, design_section
from eval.report.sections.differences import differences_section, equivalence_section
from eval.report.sections.learning_curves import learning_curves_section
from eval.report.sections.methods import limits_section, methods_section
from eval.report.sections.noise import noise_section
from eval.report.sections.outcomes import outcomes_section
from eval.report.sections.phenomena import parts_section
from eval.report.sections.scores import scores_section, seeds_section, tasks_section
from eval.report.sections.sensitivity import sensitivity_section
from eval.report.sections.training import budget_section, cost_section, training_section
from eval.report.sections.verdicts import reading, verdicts, warnings
from eval.report.source_study import source_study_section


def render(analysis: Analysis, context: Context) -> str:
    """Write the whole report as Markdown."""
    sections = [
        f"# Report: {analysis.source.title}",
        " ".join(answer(analysis)),
        verdicts(analysis),
        reading(analysis),
        warnings(analysis),
        design_section(analysis),
        checks_section(analysis),
        methods_section(analysis, context),
        scores_section(analysis, context),
        seeds_section(analysis),
        differences_section(analysis, context),
        equivalence_section(analysis),
        outcomes_section(analysis),
        parts_section(analysis, context),
        tasks_section(analysis),
        noise_section(analysis.items, [*analysis.comparisons, *analysis.contrasts]),
        sensitivity_section(analysis),
        cost_section(analysis, context),
        budget_section(analysis),
        learning_curves_section(analysis, context),
        training_section(analysis, context),
        source_study_section(analysis.source_study),
        limits_section(analysis),
        f"## Reproduce\n\n```bash\n{context.command}\n```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"
