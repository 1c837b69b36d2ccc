"""What was decided before the results, after them, and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval.report.analysis import Analysis, Request
from eval.report.document.markdown import escape, listed
from eval.report.inputs.history import History

_FLAGS = ("factor", "head", "baseline", "primary", "contrasts", "paired", "looks")
# What was so before a study's file could say it.
_FORMERLY = {"method": "welch", "correction": "holm"}


def questions_note(analysis: Analysis) -> str:
    """Say what stood in the study's file before its results, what was changed since, and what flags asked.

    What the study's author tells of it comes last.
    """
    flags = _said(asked_by_flags(analysis.request))
    on_command_line = f" On the command line: {flags}." if flags else ""
    if analysis.source.history is None:
        return f"What was decided before the results is not known of a file of scores.{on_command_line}"
    design = analysis.source.design
    note = f" The study's own note: {escape(design.note)}" if design.note else ""
    return _before_and_after(analysis.source.history, design.asked) + on_command_line + note


def _before_and_after(history: History, now: Mapping[str, Any]) -> str:
    before = history.before_results
    if before is None:
        return "What stood in the study's file before its results was not recorded."
    said = f"Before the results stood in the study's file: {_said(before.report) or 'nothing'}."
    then = _FORMERLY | before.report
    later = history.questions[history.questions.index(before) + 1 :]
    changed = _changes(then, now)
    undone = sorted({key for question in later for key in _changes(then, question.report)} - changed.keys())
    when = ", ".join(dict.fromkeys(question.date[:10] for question in later))
    since = f" ({len(later)} change{'s' * (len(later) > 1)}, {when})" if later else ""
    parts = [said]
    if changed:
        parts.append(f"Changed after the first results{since}: {_said(changed, empty='none')}.")
    if undone:
        parts.append(f"Changed after the first results{since} and back again: {listed(undone)}.")
    return " ".join(parts if changed or undone else [said, "Nothing of it was changed since."])


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What is chosen otherwise now; a choice that is not made counts as none."""
    return {key: value for key, value in now.items() if (value or None) != (then.get(key) or None)}


def asked_by_flags(request: Request) -> dict[str, Any]:
    """Name the choices of a request that decide what is claimed, as a study's file names them."""
    usual, declared = Request(), request.declared
    found = {name: getattr(request, name, None) for name in _FLAGS}
    asked = {name: value for name, value in found.items() if value != getattr(usual, name, None)}
    margins = {"margin": declared.margin, "margins": dict(declared.margins)}
    return asked | {key: value for key, value in margins.items() if value}


def _said(choices: Mapping[str, Any], empty: str = "") -> str:
    """Write choices as a sentence does; those that are not made are ``empty``, or left out."""
    words = [f"{key} {_value(value) or empty}" for key, value in choices.items() if value or empty]
    return escape(listed(words)) if words else ""


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(own)}" for name, own in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
