"""What a look inside the study's models found, where somebody took one."""

from __future__ import annotations

from eval.report.analysis import Analysis
from pretrain.run.folders import StudyFolder


def inspection_section(analysis: Analysis) -> str:
    """Repeat the sentences of the study's look inside, with the place of its page; empty without one."""
    found, study = analysis.beside.inspection, StudyFolder(analysis.source.path)
    sentences = [str(text) for text in found.get("sentences") or [] if isinstance(text, str)]
    if not sentences:
        return ""
    said = "\n".join(f"{number}. {text}" for number, text in enumerate(sentences, 1))
    place = study.inspection_dir.relative_to(study.path).as_posix()
    return (
        "## Look inside\n\n"
        f"What `ffn-ablations inspect` found in {found.get('runs')} trained models, over seeds, with "
        f"intervals that hold together for its whole page, and apart from the claims of this report:\n\n"
        f"{said}\n\n"
        f"The page with controls and figures is `{place}/inspection.html` in the study's folder."
    )
