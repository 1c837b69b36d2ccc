"""Archive a study: everything that its report reads, and no model."""

from __future__ import annotations

from pathlib import Path

from pretrain.run.folders import StudyFolder


def keep(study: Path, out: Path) -> int:
    """Write the archives of a study; returns 2 where a finished run is damaged, and the others are archived.

    Args:
        study: The study's folder.
        out: Folder for the archives; those that are there are brought up to date.
    """
    from slurm.archive.contents import write_archives

    kept = write_archives(StudyFolder(study), out)
    for line in (kept.done, *kept.notes):
        print(line)
    return 2 if kept.has_damage else 0
