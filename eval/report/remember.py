"""Notes in a study's folder what its report asks, and what it answers (``eval.report.inputs.history``)."""

from __future__ import annotations

from dataclasses import replace

from eval.report.analysis import Analysis
from eval.report.inputs.history import read_history, remember_question, remember_report
from eval.report.inputs.sources import Source


def with_question_remembered(source: Source) -> Source:
    """Note what a study's file asks before it is answered; whoever edits the file by hand changes it here."""
    if source.history is None or not source.design.written:
        return source
    remember_question(source.path, source.design.asked)
    return replace(source, history=read_history(source.path))


def remember(analysis: Analysis) -> None:
    """Note a report of a whole study that answers the study's own question."""
    if analysis.looks is not None:
        remember_report(analysis.source.path, analysis.looks.reports[-1])
